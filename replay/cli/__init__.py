"""The command line: one command a file, a line each in ``COMMANDS``, and what an error looks like.

A command's module imports only light things at its top (typer, ``replay.errors``); numba, polars, pyarrow,
duckdb and matplotlib are imported inside the function, so that ``replay --help`` answers at once.

Exit codes: 0 done; 1 a check did not hold; 2 misuse or bad input; 3 an internal identity broke; 130
interrupted; 128 + n ended by the signal n (SIGTERM, SIGHUP), with nothing half-written left.
"""

import contextlib
import errno
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from replay import __version__
from replay.cli.process import (
    Terminated,
    out_of_bounds,
    panicked,
    signals,
    starved,
    streams,
    within_limits,
)
from replay.cli.table import shown
from replay.errors import ReplayError, nearest

# name on the command line, module, function (or typer.Typer for a command with subcommands)
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("audit", "replay.cli.audit", "audit"),
    ("budget", "replay.cli.budget", "budget"),
    ("calibrate", "replay.cli.calibrate", "calibrate"),
    ("compare", "replay.cli.compare", "compare"),
    ("curves", "replay.cli.curves", "curves"),
    ("cut", "replay.cli.cut", "cut"),
    ("diff", "replay.cli.diff", "diff"),
    ("drafts", "replay.cli.drafts", "drafts"),
    ("export", "replay.cli.export", "export"),
    ("fidelity", "replay.cli.fidelity", "fidelity"),
    ("fit-clock", "replay.cli.fit_clock", "fit_clock"),
    ("frontier", "replay.cli.frontier", "frontier"),
    ("gallery", "replay.cli.gallery", "gallery"),
    ("import", "replay.cli.import_", "import_"),
    ("info", "replay.cli.info", "info"),
    ("policies", "replay.cli.policies", "policies"),
    ("query", "replay.cli.query", "query"),
    ("recover", "replay.cli.recover", "recover"),
    ("report", "replay.cli.report", "report"),
    ("schema", "replay.cli.schema", "schema"),
    ("sweep", "replay.cli.sweep", "sweep"),
    ("synth", "replay.cli.synth", "synth"),
    ("validate", "replay.cli.validate", "validate"),
    ("verdict", "replay.cli.verdict", "verdict"),
)

# commands of those who work on this program: they run, and no list shows them
HIDDEN = frozenset({"gallery"})

# what `replay --help` lists them under, by task; a command that is in no group is listed last
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Replay",
        ("compare", "sweep", "curves", "drafts", "budget", "calibrate", "frontier", "fit-clock", "policies"),
    ),
    ("Read a run", ("report", "query", "diff")),
    ("Check", ("info", "validate", "audit", "fidelity", "verdict")),
    ("Make a trace", ("import", "record", "recover", "synth", "cut", "export")),
)
REST = "More"

_SECTION = re.compile(r"^(Parameters|Returns|Raises|Examples|Notes|See Also)\n-+\n", re.MULTILINE)


def help_of(docstring: str | None) -> tuple[str, str]:
    r"""Turn a command's numpydoc docstring into what its ``--help`` shows.

    Parameters
    ----------
    docstring : str or None
        The docstring: its text up to the first section is the help, its ``Examples`` section the epilogue.

    Returns
    -------
    tuple of str
        The help, and the epilogue with each line kept as it stands.

    Examples
    --------
    >>> help_of("Do it.\n\nExamples\n--------\nreplay do it\n")
    ('Do it.', '\x08\nExamples:\n  replay do it')
    """
    parts = _SECTION.split(inspect.cleandoc(docstring or ""))
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    examples = [f"  {line}" for line in sections.get("Examples", "").strip().splitlines()]
    epilogue = "\n".join(["\b", "Examples:", *examples]) if examples else ""
    return parts[0].strip(), epilogue


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"replay {__version__}")
        raise typer.Exit()


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Replay recorded mixture-of-experts decode traces through caching and read-ahead policies."""


class Grouped(TyperGroup):
    """The root command, whose help lists commands by task."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section a group of ``GROUPS``, and one for what is in none."""
        shown = {name: each for name, each in self.commands.items() if not each.hidden}
        placed = {name for _, names in GROUPS for name in names}
        groups = [*GROUPS, (REST, tuple(name for name in shown if name not in placed))]
        widest = max(map(len, shown))
        for title, names in groups:
            rows = [
                (name.ljust(widest), shown[name].get_short_help_str(200)) for name in names if name in shown
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def build() -> typer.Typer:
    """Build the application from ``COMMANDS``.

    Returns
    -------
    typer.Typer
        The application, every command registered.
    """
    app = typer.Typer(
        cls=Grouped,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="\b\nExamples:\n  replay info TRACE\n  replay compare TRACE -p unpert1+decode2q --out DIR",
    )
    app.callback()(_root)
    for name, module, attribute in COMMANDS:
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            text, epilogue = help_of(command.__doc__)
            app.command(name, help=text, epilog=epilogue, hidden=name in HIDDEN)(command)
    return app


def _usage(problem: Any) -> str:
    """Make one line of a usage error: what is wrong, and where the help is."""
    context = getattr(problem, "ctx", None)
    path = context.command_path if context is not None else "replay"
    message = " ".join(problem.format_message().split())
    unknown = re.fullmatch(r"No such command '(.*?)'\..*", message)
    if unknown and context is not None:
        message = (
            f"no such command {unknown[1]!r}; {nearest(unknown[1], context.command.list_commands(context))}"
        )
    message = message.rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; see `{path} --help`"


def _os_error(problem: OSError) -> str:
    """Make one line of an operating-system error: the file, what happened, and what to do."""
    where = f"{problem.filename}: " if problem.filename is not None else ""
    todo = {
        errno.ENOSPC: "; free space or write elsewhere",
        errno.EACCES: "; check the permissions",
        errno.ENOENT: "; check the path",
    }.get(problem.errno or 0, "")
    return f"{where}{problem.strerror or problem}{todo}"


_LONGEST = 900
"""Characters of an error that are shown; the middle of a longer one is left out."""


def _one_line(message: str) -> str:
    """Make one line of a message, whatever an input put into it: printable, and not endless."""
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST - 200]} ... {message[-200:]}"
    return shown(" ".join(message.split("\n")))


def _fail(message: str, code: int) -> int:
    """Print one line on stderr and return the exit code."""
    line = _one_line(message)
    with contextlib.suppress(OSError):  # nowhere left to say it: the exit code still does
        print(f"replay: error: {line}", file=sys.stderr, flush=True)
    return code


def _drop_stdout() -> None:
    """Point stdout nowhere, so that what is still buffered cannot fail again as Python exits."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _guarded(action: Callable[[], Any]) -> int:
    """Run an action and turn whatever ends it into an exit code."""
    try:
        action()
        return 0
    except typer.Exit as done:
        return done.exit_code
    except SystemExit as done:  # of the shell completion
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except ReplayError as problem:
        if hunger := starved(problem):
            return _fail(hunger, 2)
        return _fail(str(problem), problem.exit_code)
    except (KeyboardInterrupt, EOFError, typer.Abort):
        return _fail("interrupted", 130)
    except Terminated as problem:
        return _fail(f"ended by {problem}", 128 + problem.number)
    except BrokenPipeError:
        # the reader of our output went away: quiet, and the code that the signal would have given
        _drop_stdout()
        return 128 + 13
    except OSError as problem:
        _drop_stdout()
        return _fail(starved(problem) or _os_error(problem), 2)
    except BaseException as problem:
        if not isinstance(problem, Exception) and not panicked(problem):
            raise
        if hasattr(problem, "format_message"):  # typer's usage errors, whichever click it carries
            return _fail(_usage(problem), 2)
        if files := out_of_bounds(problem):
            reached = "a step reached outside the arena's memory"
            return _fail(
                f"{files}: {reached} ({problem}); it may use a slot's, a part's and an expert's words only", 2
            )
        if hunger := starved(problem):
            return _fail(hunger, 2)
        traceback.print_exc()
        return _fail(f"a defect of this program ({type(problem).__name__}); please report it", 3)


def _invoke(arguments: list[str]) -> None:
    """Run the command that the arguments name; what ends it is the caller's to handle."""
    command: Any = typer.main.get_command(build())
    command._main_shell_completion({}, "replay")  # where a shell asks, by its variable: answers and exits
    try:
        with command.make_context("replay", arguments) as context:
            command.invoke(context)
    finally:
        sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after the command's name; those of the process by default.

    Returns
    -------
    int
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    streams()
    with signals():
        return _guarded(lambda: _invoke(given))


def entry() -> None:
    """Run the command line and exit: the console script."""
    sys.exit(within_limits(main, _fail))
