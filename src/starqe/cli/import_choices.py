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
    from starqe.kg import Columns, Draft, Graph, Names, WikidataOptions
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
    literals: Annotated[
        Literal["keep", "bucket", "drop"],
        typer.Option(help="Numbers, dates, texts: keep them as values, make entities of ranges of numbers and dates, or leave all out."),
    ] = "keep"
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
    graph_qualifier: Annotated[
        str | None, typer.Option(help="RDF: a relation; the named graph of a statement becomes a qualifier with it.")
    ] = None
    value_node: Annotated[
        str | None, typer.Option(help="RDF: the IRI of the predicate from a node of an n-ary relation to its object.")
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

        names = names_with(self.entity_base, self.relation_base)
        wikidata, labels = self._wikidata(), self.label or ()
        options = wikidata, labels, self._columns(), self.literals, self.graph_qualifier, self.value_node
        return import_graph(sources, self.form, names, self.on_error, self.unasserted, advance, *options)

    def read_draft(self, sources: Sequence[Path], names: "Names", advance: Callable[[int], None]) -> tuple["Draft", "Report"]:
        """Reads statements and labels with these options, for a graph whose identifiers are written by these names.

        Raises:
            InputError: A source is missing, malformed, or of no known form, or an option is not valid.
        """
        from starqe.errors import InputError
        from starqe.kg import Report
        from starqe.kg.exchange import read_files
        from starqe.kg.reading.import_task import ImportTask

        if self.literals == "bucket":
            raise InputError(
                "changes keep or drop literals, found bucket: its ranges depend on all values of a graph. Import the whole graph anew"
            )
        task = ImportTask(
            report=Report(self.on_error),
            names=names_with(self.entity_base, self.relation_base, names),
            unasserted=self.unasserted,
            advance=advance,
            wikidata=self._wikidata(),
            columns=self._columns(),
            graph_qualifier=self.graph_qualifier,
            value_node=self.value_node,
            label_relations=tuple(self.label or ()),
            literals=self.literals,
        )
        read_files(task, sources, self.form)
        return task.draft, task.report

    def _wikidata(self) -> "WikidataOptions":
        from starqe.kg import WikidataOptions

        chosen = frozenset(_words(self.classes)), frozenset(_words(self.properties))
        return WikidataOptions(_words(self.ranks), _words(self.languages), *chosen, self.min_statements, self.special_values)

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


def names_with(entity_base: str | None, relation_base: str | None, default: "Names | None" = None) -> "Names":
    """Returns the names with these bases; one that is left out is the default."""
    from starqe.kg import Names

    default = default or Names()
    return Names(entity_base or default.entity_base, relation_base or default.relation_base)


def print_findings(graph: "Graph", report: "Report") -> None:
    """Prints what reading a graph left out, and what its splits have in common."""
    from starqe.kg import check_split

    print_left_out(report)
    findings = {name: count for name, count in check_split(graph).as_dict().items() if count and name != "distinct_statements"}
    if findings:
        print_pairs(findings, "  the splits are kept as given, and are not transductive:")


def print_left_out(report: "Report") -> None:
    """Prints how files were read, and what was left out."""
    from starqe.kg import FORMS

    for form, files in report.forms.items():
        way_out = "" if FORMS[form].extensions else " (--format reads them as another form)"
        print(f"  read as {form}: {files:,} file{'s' * (files > 1)}{way_out}")
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


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
