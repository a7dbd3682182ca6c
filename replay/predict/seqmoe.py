"""``seqmoe``: read-ahead as jobs with deadlines: what can be there in time is admitted (SeqMoE, arXiv 2609.12978).

Its learned predictor is not public, so candidates come from the trace: the ``k + extra`` best raw candidate scores of
every row (k: the model's top_k unless given; ``extra=3``), at their moments, merged as every ranked guess is. In that
order, most confident first, each absent one is a job: its bytes, and a deadline, which is when the target's event asks.
It is admitted where the schedule with it stays feasible; another is passed over, and a smaller one after it may fit.

The schedule is the nominal plan (:mod:`replay.clock.nominal`; semantics 6): events take pre and post and wait for
nothing; the jobs are moved one after another in the order in which they were issued, as the disk would move them:
done = max(now + latency, end of the jobs before) + bytes / bandwidth. A job at the end delays none before it, so the
schedule is feasible where its own end meets its deadline. Choices where the source leaves room:

- The bandwidth is an exponential average of what the jobs' own transfers show. On the nominal plan each of them shows
  the device's rate, so that rate is the average at any time, and there is no option for its weight.
- Only issued reads are jobs: a guess that a gate behind it withholds or that finds no victim takes no time.
- The plan runs through from window to window, as the clock does; a job of a window is over when its window is.
- Demand reads are not in the plan, as no plan can know them; what a busy disk makes late is counted by the clock.

With the default clock a guess made one layer ahead has 200 us (pre) for 80 us of latency and its bytes at 6 GB/s, which
is 0.7 MB. Where experts are larger nothing is admitted unless the trace's candidates are made more layers ahead. Gates
may follow; the results count it as a gate: what was asked, admitted, and wanted.
"""

from replay.clock.nominal import done
from replay.declare.policy import Option, Policy
from replay.gate.admission import BYTES, CANDIDATE, DEADLINE, DEVICE, ISSUED, LATENCY, NOW, area
from replay.jit import gate
from replay.predict.ranking import ACTING

POLICY = Policy(
    name="seqmoe",
    kind="read-ahead",
    summary="the best raw candidates, those that a nominal schedule moves before their deadline",
    needs="C",
    source="SeqMoE, arXiv 2609.12978",
    options={
        "k": Option("int", None, main=True, low=0),
        "extra": Option("int", 3, low=0),
        **ACTING,
    },
)

FREE = 0
"""Its own word: when the jobs issued so far are moved."""


def picks(options, top_k):
    """Candidates of a row.

    Examples
    --------
    >>> picks({"k": None, "extra": 3}, 8)
    11
    """
    return (top_k if options["k"] is None else options["k"]) + options["extra"]


def lay(options, shape):
    """Nothing is on its way."""
    return area(words=[0])


def notes(own):
    """What a finished run has to say.

    Parameters
    ----------
    own : int64[1]
        The words of its own.

    Examples
    --------
    >>> notes([0])
    ['no guess was read: the nominal plan moves none of them between its moment and its event']
    """
    if own[FREE] > 0:
        return []
    return ["no guess was read: the nominal plan moves none of them between its moment and its event"]


@gate
def ask(operation, at, reals_at, words, reals):
    """Whether a candidate's job ends before its deadline; an issued one is put behind the others."""
    if operation != CANDIDATE and operation != ISSUED:
        return 0
    end = done(words[NOW], words[LATENCY], words[at + FREE], words[BYTES], reals[DEVICE])
    if operation == ISSUED:
        words[at + FREE] = end
    return 1 if end <= words[DEADLINE] else 0
