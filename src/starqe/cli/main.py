"""The command line: the commands, and the exit codes of errors."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import typer

from starqe.cli import bench, calibrate, data, demo, evaluate, fit, index, queries, reproduce, serve, train, tune
from starqe.cli.ask import ask, rules
from starqe.cli.show import Interrupted, printable
from starqe.errors import InputError, StarqeError

app = typer.Typer(
    name="starqe",
    help="Ask an incomplete knowledge graph.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("fit")(fit.fit)
app.command("ask")(ask.ask)
app.command("serve")(serve.serve)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("index")(index.index)
app.command("rules")(rules.rules)
app.command("reproduce")(reproduce.reproduce)
app.command("tune")(tune.tune)
app.add_typer(data.app, name="data")
app.add_typer(queries.app, name="queries")
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def root(show_version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    """Ask an incomplete knowledge graph."""
    if show_version:
        from starqe import __version__

        typer.echo(f"starqe {__version__}")
        raise typer.Exit


_AGAIN_SECONDS = 0.02


def main() -> None:
    """Runs the command line: exit code 0, 1 (failed) or 2 (wrong use), 130 when interrupted, 143 when terminated."""
    _open_streams()
    with _noticed() as interrupted:
        try:
            _check_arguments(sys.argv[1:])
            app(prog_name="starqe")
        except Interrupted:  # a message was printed already
            raise
        except (Exception, SystemExit) as error:
            # Typer turns Ctrl-C into an exit, and libraries into errors of their own: DuckDB raises RuntimeError.
            if getattr(error, "code", 130 if interrupted() else None) == 130:
                print("starqe: interrupted; what was finished is kept", file=sys.stderr)
                _end(130)
            if isinstance(error, SystemExit):
                _end(error.code)
            if (message := _message(error)) is None:
                raise
            print(printable(f"starqe: {message}"), file=sys.stderr)
            _end(1)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


@contextlib.contextmanager
def _noticed() -> Iterator[Callable[[], bool]]:
    """Records Ctrl-C; yields a function that returns whether it was pressed.

    While a module is being imported, Ctrl-C waits for the end of the import: libraries try to import others, and take any exception
    for a sign that those are not installed.
    """
    came = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if _importing(frame) and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, note)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
            return
        signal.default_int_handler(signal.SIGINT, frame)

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


def _message(error: BaseException) -> str | None:
    """Returns the one-line message of an error; None for bugs, which are shown with their traceback."""
    match error:
        case StarqeError():
            return str(error)
        case OSError():
            name = "reading or writing failed" if error.filename is None else str(error.filename)[:200]
            return f"{name}: {error.strerror or error}"
        case UnicodeError():
            return f"names and texts are UTF-8, found something else ({error}). Rename the file, or convert it"
        case MemoryError():
            return "there is not enough memory. Close other programs, or use a smaller graph, batch or limit"
        case RuntimeError() if "can't allocate memory" in str(error) or "out of memory" in str(error):  # torch has no error of its own
            return _message(MemoryError())
    return None


def _open_streams() -> None:
    """Repairs standard streams that are closed or cannot write every character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - it stays open to the end
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _check_arguments(arguments: list[str]) -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(f"arguments are UTF-8, found {argument!a}. Rename the file, or give another path") from None


def _end(code: str | int | None) -> NoReturn:
    """Ends with an exit code after flushing the output; if that fails, the code is that of a failure."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader has closed the pipe
            print(f"starqe: cannot write the output: {error.strerror}", file=sys.stderr)
        with contextlib.suppress(OSError, ValueError):  # the rest would fail again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
