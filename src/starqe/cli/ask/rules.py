"""``starqe rules``: shows the rules of a run in words."""

from pathlib import Path
from typing import Annotated

import typer

from starqe.cli.show import Json, print_json, print_table


def rules(
    run: Annotated[Path, typer.Argument(help="The run folder of a one-hop predictor, or of a calibrated model that has one.")],
    relation: Annotated[str | None, typer.Option(help="Only rules for statements with this relation: a label or an identifier.")] = None,
    top: Annotated[int, typer.Option(min=1, help="The number of rules, by how often they were right times their confidence.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the rules that a run's predictions of single facts count, in words.

    All of them are in the file rules.parquet of the run, which DuckDB and others read.
    """
    from starqe.cli.ask.reasons import shown_label
    from starqe.cli.evaluate import one_hop_predictor, rules_of
    from starqe.reason.predictor.run import open_run

    predictor = one_hop_predictor(open_run(run))
    found, graph = rules_of(predictor).rules, predictor.graph
    chosen = found.best(top, None if relation is None else graph.relations.resolve(relation))
    if as_json:
        rows = [{"rule": found.words(rule), **found.counts(rule)} for rule in chosen]
        print_json({"rules": len(found), "weight": found.weight, "shown": rows})
        return

    def entity(name: str) -> str:
        return shown_label(graph.entities.label(graph.entities.id(name)))

    def name_of(name: str) -> str:
        return shown_label(graph.relations.label(graph.relations.id(name)))

    lines = [(found.words(rule, entity, name_of), *found.counts(rule).values()) for rule in chosen]
    title = f"{len(lines):,} of {len(found):,} rules, which count with the weight {found.weight:g}"
    print_table(("rule", "right", "of", "at least"), lines, title)
