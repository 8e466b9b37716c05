"""The report of a study: a summary, two plots, and the best recipe as a file."""

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from starqe.config import to_toml
from starqe.experiments.tuning.importance import FEWEST, Importances, importances
from starqe.experiments.tuning.search_space import Domain, Range, value_at
from starqe.experiments.tuning.study import Result, Study
from starqe.folders import new_file
from starqe.learn.presets import preset

INK, SOFT, ACCENT = "#1f2933", "#9aa5b1", "#2563eb"


PARAMETER_COLUMNS = ("parameter", "best", "the paper's StarQE", "searched", "importance")


def parameter_rows(study: Study) -> list[tuple[str, ...]]:
    """Returns a row for each parameter, as PARAMETER_COLUMNS."""
    best, paper, shares = study.best, preset("starqe"), importances(study.results(), study.terms.space).shares
    rows: list[tuple[str, ...]] = []
    for key, domain in study.terms.space.items():
        found = value_at(study.recipe(best.parameters), key) if best else None
        share = f"{shares[key]:.0%}" if key in shares else None
        rows.append((key, cell(found), cell(value_at(paper, key)), _domain_text(domain), cell(share)))
    return rows


def importance_text(study: Study) -> str:
    """Explains what importance means, and how much of it is chance."""
    found = importances(study.results(), study.terms.space)
    meaning = f"Importance: the share of the variance of {study.terms.objective} that a parameter explains alone"
    if not found.shares:
        return f"{meaning}; it is measured from {FEWEST} complete trials on, and there are {found.trials}."
    return f"{meaning}, over {found.trials} complete trials. Chance alone reaches {found.chance:.0%}: anything below is noise."


def write_summary(study: Study) -> None:
    """Writes ``summary.md``, and ``best.toml`` as soon as a trial is complete.

    Raises:
        StorageError: A file cannot be written.
    """
    _write(study, "summary.md", summary(study))
    if best := study.best:
        length = f" in {study.terms.minutes:g} minutes: train as long, {study.terms.minutes:g} minutes" if study.terms.minutes else ""
        origin = f"# Trial {best.trial} of a search: validation {study.terms.objective} {best.value:.2f}{length}\n"
        _write(study, "best.toml", origin + to_toml(study.recipe(best.parameters)))


def summary(study: Study) -> str:
    """Writes a study as Markdown."""
    terms, results, best = study.terms, study.results(), study.best
    counted = sum(result.counts for result in results)
    lines = [
        f"# A search for the best {terms.objective}",
        "",
        f"{terms.objective} is that of the validation queries in percent (macro, the mean over the shapes, protocol paper). "
        f"Graph {terms.graph[:12]}; seed {terms.base.seed}; {counted} trials finished"
        + (f", {terms.minutes:g} minutes each." if terms.minutes else "."),
        "",
        f"**Best: {best.value:.2f}, trial {best.trial}** (`best.toml`, `trials/{best.trial:03d}`)."
        if best
        else "No trial is complete yet.",
        "",
        *_table(PARAMETER_COLUMNS, parameter_rows(study)),
        "",
        importance_text(study),
        "",
        "![history](history.png)",
        "",
        "## Trials",
        "",
        *_table(("trial", "state", terms.objective, "epochs", "minutes", *terms.space), [_trial_row(study, result) for result in results]),
    ]
    errors = [f"- trial {result.trial}: {result.error}" for result in results if result.error]
    return "\n".join([*lines, *(["", "## Errors", "", *errors] if errors else [])]) + "\n"


def draw(study: Study) -> None:
    """Draws ``history.png``, and ``importances.png`` after enough trials.

    Raises:
        StorageError: A file cannot be written.
    """
    shown = [result for result in study.results() if result.value is not None]
    if shown:
        _save(study, "history.png", _history(study.terms.objective, shown))
    found = importances(shown, study.terms.space)
    if found.shares:
        _save(study, "importances.png", _bars(found))


def cell(value: Any) -> str:
    """Formats a value of a parameter."""
    match value:
        case None:
            return "–"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.4g}"
    return str(value)


def _trial_row(study: Study, result: Result) -> list[str]:
    value = None if result.value is None else f"{result.value:.2f}"
    minutes = None if result.seconds is None else f"{result.seconds / 60:.1f}"
    chosen = (result.parameters.get(key) for key in study.terms.space)
    return [cell(field) for field in (result.trial, result.state, value, result.epochs, minutes, *chosen)]


def _domain_text(domain: Domain) -> str:
    if not isinstance(domain, Range):
        return ", ".join(map(cell, domain))
    how = ", log" if domain.log else f" by {cell(domain.step)}" if domain.step else ""
    return f"{cell(domain.low)} to {cell(domain.high)}{how}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (columns, ["---"] * len(columns), *rows)]


def _write(study: Study, name: str, text: str) -> None:
    with new_file(study.folder / name, overwrite=True) as beside:
        beside.write_text(text, encoding="utf-8")


def _save(study: Study, name: str, figure: Figure) -> None:
    with new_file(study.folder / name, overwrite=True) as beside:
        figure.savefig(beside, format="png", dpi=120)


def _history(objective: str, results: Sequence[Result]) -> Figure:
    """Draws the objective of each trial, and the best so far."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for state, mark, colour in (("complete", "o", ACCENT), ("pruned", "x", SOFT)):
        of_state = [result for result in results if result.state == state]
        axes.scatter([r.trial for r in of_state], [r.value or 0.0 for r in of_state], marker=mark, color=colour, label=state, zorder=3)
    complete = [result for result in results if result.state == "complete"]
    best = [max(r.value or 0.0 for r in complete[: count + 1]) for count in range(len(complete))]
    axes.step([r.trial for r in complete], best, where="post", color=INK, linewidth=1, label="best so far")
    axes.set(xlabel="trial", ylabel=f"validation {objective}, percent")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color="#e4e7eb")
    axes.margins(y=0.08)
    axes.legend()
    return figure


def _bars(found: Importances) -> Figure:
    """Draws the importance of each parameter, the largest at the top, and the level by chance."""
    figure = Figure(figsize=(7, 1.4 + 0.35 * len(found.shares)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(list(found.shares), [100 * share for share in found.shares.values()], color=ACCENT)
    axes.bar_label(bars, fmt="%.0f", padding=3)
    axes.axvline(100 * found.chance, color=INK, linestyle="dashed", linewidth=1, label="level by chance")
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.legend(loc="lower right")
    axes.set(xlabel=f"percent of the variance explained alone ({found.trials} complete trials)")
    return figure
