"""The command line: what there is, and what an error becomes."""

import sys

import typer

from starqe.cli import ask, bench, calibrate, data, demo, evaluate, fit, queries, reproduce, serve, train, tune
from starqe.errors import StarqeError

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


def main() -> None:
    """Runs the command line: exit code 0, 1 (failed) or 2 (wrong use), 130 when interrupted."""
    try:
        app(prog_name="starqe")
    except StarqeError as error:
        print(f"starqe: {error}", file=sys.stderr)
        sys.exit(1)
    except SystemExit as stop:
        if stop.code == 130:  # what typer makes of Ctrl-C
            print("starqe: interrupted; what was finished is kept", file=sys.stderr)
        raise
