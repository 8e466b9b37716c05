"""The import options that ``starqe data import`` and ``starqe fit`` share, declared once."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from starqe.cli.show import print_pairs, say

if TYPE_CHECKING:
    from starqe.kg import Columns, Graph, Names
    from starqe.kg.reading.report import Report

MOST = 5
"""Number of relations that are listed when something was left out."""


def form_name(text: str) -> str:
    """Checks the name of a form against `FORMS`, which is imported only here because that takes a while."""
    from starqe.kg import FORMS

    if text not in FORMS:
        raise typer.BadParameter(f"'{text}' is not one of {', '.join(FORMS)}")
    return text


def form_names(incomplete: str) -> list[str]:
    """Completes the name of a form."""
    from starqe.kg import FORMS

    return [name for name in FORMS if name.startswith(incomplete)]


Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        parser=form_name,
        metavar="FORM",
        autocompletion=form_names,
        help="The form, such as turtle; detected if left out. docs/data.md lists them.",
    ),
]
EntityBase = Annotated[str | None, typer.Option(help="IRI in front of entity identifiers in RDF, such as http://www.wikidata.org/entity/")]
RelationBase = Annotated[str | None, typer.Option(help="IRI in front of relation identifiers in RDF.")]


@dataclass(frozen=True)
class ImportChoices:
    """The options of an import; each field is an option of the commands that `import_options` decorates."""

    form: Format = None
    on_error: Annotated[Literal["stop", "skip"], typer.Option(help="Stop at a malformed statement, or skip and count it.")] = "stop"
    unasserted: Annotated[Literal["leave", "keep"], typer.Option(help="What to do with reified triples that are not asserted.")] = "leave"
    entity_base: EntityBase = None
    relation_base: RelationBase = None
    ranks: Annotated[str, typer.Option(help="Wikidata: the ranks of statements to read, or best.")] = "preferred,normal"
    languages: Annotated[str, typer.Option(help="Wikidata: languages of labels, such as en,de.")] = "en"
    classes: Annotated[str, typer.Option(help="Wikidata: only instances of these classes, such as Q5,Q571.")] = ""
    properties: Annotated[str, typer.Option(help="Wikidata: only statements with these properties, such as P19,P69.")] = ""
    min_statements: Annotated[int, typer.Option(min=0, help="Wikidata: only entities with at least this many statements.")] = 0
    special_values: Annotated[Literal["leave", "keep"], typer.Option(help="Wikidata: leave out or keep unknown and no values.")] = "leave"
    head: Annotated[str | None, typer.Option(help="Tables: the column with the heads.")] = None
    relation: Annotated[str | None, typer.Option(help="Tables: the column with the relations.")] = None
    tail: Annotated[str | None, typer.Option(help="Tables: the column with the tails.")] = None
    qualifier: Annotated[
        list[str] | None, typer.Option(help="Tables: a column with values of a qualifier; may be given several times.")
    ] = None
    label: Annotated[
        list[str] | None, typer.Option(help="A property, or the IRI of a predicate, that is a label, besides the usual ones.")
    ] = None

    def read(self, sources: Path | Sequence[Path], advance: Callable[[int], None] = lambda _: None) -> tuple["Graph", "Report"]:
        """Reads a graph with these options.

        Raises:
            InputError: The source is missing, malformed, or of no known form, or an option is not valid.
        """
        from starqe.kg import import_graph
        from starqe.kg.reading.import_options import WikidataOptions

        chosen = frozenset(_words(self.classes)), frozenset(_words(self.properties))
        return import_graph(
            sources,
            self.form,
            names_with(self.entity_base, self.relation_base),
            self.on_error,
            self.unasserted,
            advance,
            WikidataOptions(_words(self.ranks), _words(self.languages), *chosen, self.min_statements, self.special_values),
            self.label or (),
            self._columns(),
        )

    def _columns(self) -> "Columns | None":
        """Returns the columns of a table, or None if none is named."""
        from starqe.kg import Columns

        if not (self.head or self.relation or self.tail or self.qualifier):
            return None
        if not (self.head and self.relation and self.tail):
            raise typer.BadParameter("a table needs --head, --relation and --tail together")
        return Columns(self.head, self.relation, self.tail, tuple(self.qualifier or ()))


def import_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces the parameter ``choices`` of a command by one option for each field of `ImportChoices`."""
    hints = get_type_hints(ImportChoices, include_extras=True)
    options = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(ImportChoices)
    ]

    @functools.wraps(command)
    def decorated(**values: Any) -> None:
        choices = ImportChoices(**{option.name: values.pop(option.name) for option in options})
        command(**values, choices=choices)

    own = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        replaced = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own[parameter.name])
        parameters += options if parameter.name == "choices" else [replaced]
    decorated.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    decorated.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return decorated


def names_with(entity_base: str | None, relation_base: str | None) -> "Names":
    """Returns the names with these bases; one that is left out is the default."""
    from starqe.kg import Names

    default = Names()
    return Names(entity_base or default.entity_base, relation_base or default.relation_base)


def print_findings(graph: "Graph", report: "Report") -> None:
    """Prints what reading a graph left out, and what its splits have in common."""
    from starqe.kg import FORMS, graph_stats

    for form, files in report.forms.items():
        if not FORMS[form].extensions:
            print(f"  read as {form}: {files:,} file{'s' * (files > 1)} (--format reads them as another form)")
    for finding in report.findings():
        say(f"  {finding}")
    for reason, counts in report.left_out.items():
        most = ", ".join(f"{relation} {count:,}" for relation, count in counts.most_common(MOST))
        more = f", and {len(counts) - MOST:,} more" if len(counts) > MOST else ""
        say(f"  {reason}, left out by relation: {most}{more}")
    for problem in report.problems:
        say(f"    {problem}")
    for note in report.notes:
        say(f"  note: {note}")
    findings = {name: count for name, count in graph_stats(graph)["split_findings"].items() if count and name != "distinct_statements"}
    if findings:
        print_pairs(findings, "  the splits are kept as given, and are not transductive:")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
