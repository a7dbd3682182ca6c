"""Kill -9 at random points: nothing half-written passes for a whole, and the work goes on (REPLAY_KILLS scales)."""

from reliability.kills import environment_kills, kill_all


def test_kills_leave_nothing_half_written() -> None:
    section = kill_all(environment_kills())
    assert section.wrong == []
    assert sum(row[1] for row in section.rows) >= 5
    left = " ".join(str(row[2]) for row in section.rows)
    assert "nothing" in left, "no kill came before the end"
