"""The query language: SPARQL 1.2, from text to a request over one graph.

What a text means, and which part of SPARQL is predicted, is written down in docs/language.md. Everything that is not predicted raises
a `KnownOnlyError`: known facts alone answer it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from starqe.errors import KnownOnlyError, SparqlError, UnknownNameError
from starqe.kg.graph import Graph
from starqe.queries.formula import Term, Variable, atoms_of
from starqe.queries.sparql.foreign import foreign_error
from starqe.queries.sparql.groups import Case, GroupReader, merged
from starqe.queries.sparql.patterns import Patterns, is_path, is_tree, variables_of
from starqe.queries.sparql.request import RESERVED, SparqlRequest, alternative_of
from starqe.queries.sparql.syntax import Node, error_at, known_only, parse_sparql, parts_of, refused
from starqe.queries.sparql.terms import SparqlTerms

_MAX_DIGITS = 18


def read_sparql(text: str, graph: Graph, max_atoms: int | None = None) -> SparqlRequest:
    """Reads a text as a request over a graph.

    Args:
        text: The text.
        graph: What names and labels are looked up in; every entity and relation of the request is one of this graph.
        max_atoms: The largest number of triple patterns.

    Raises:
        SparqlError: The text breaks a rule, or names what the graph does not have.
        KnownOnlyError: It asks in a form that is not predicted.
    """
    tree = _parsed(text, graph)
    terms = _terms(tree, graph)
    form = next(part for part in tree.children if is_tree(part, "select", "ask", "construct", "describe"))
    _check_form(form)
    group = next(part for part in form.children if is_tree(part, "group"))
    _check_reserved(tree, group, [part for part in tree.children if is_tree(part, "values")])
    reader = GroupReader(tree, terms, graph, text)
    cases = reader.cases(group)
    for part in tree.children:
        if is_tree(part, "values"):
            cases = [one & other for one in cases for other in reader.values(part)]
    if max_atoms is not None and reader.atoms > max_atoms:
        raise error_at(group, f"a query has at most {max_atoms:,} patterns here, found {reader.atoms:,}", "Ask several queries")
    _check_kinds(reader)
    columns = _columns(form, [group, *(part for part in tree.children if is_tree(part, "values"))], reader, cases)
    shown = [name for name in columns if name not in RESERVED]
    alternatives = tuple(
        alternative_of(case, shown, group) for case in merged(cases, set(map(Variable, shown))) if _has_atoms(case) or case.facts
    )
    if not alternatives:
        raise known_only(group, "never" if reader.atoms else "no pattern")
    if lost := [name for name in shown if not any(name in one.bound for one in alternatives)]:
        token = next(token for token in variables_of(tree) if token[1:] == lost[0])
        rule = f"SELECT shows variables of the patterns, and {token} is in none"
        raise error_at(token, rule, "Is it spelled as in the pattern?", kind=KnownOnlyError)
    return SparqlRequest(
        alternatives,
        columns,
        _distinct(form),
        _count(form, "limit"),
        _count(form, "offset") or 0,
        {"select": "SELECT", "ask": "ASK", "construct": "CONSTRUCT"}[form.data],  # type: ignore[arg-type]
        store_text(text, tree, terms, columns, reader.rewritten),
        form.start_pos,
        _template(form, terms) if form.data == "construct" else (),
        _has_branches(tree),
    )


def _has_branches(tree: Node) -> bool:
    """Returns whether a row may have several derivations: by UNION, OPTIONAL, EXISTS or several rows of VALUES."""
    if any(len(part.children) > 1 for part in parts_of(tree, "union")) or any(parts_of(tree, kind) for kind in ("optional", "exists")):
        return True
    return any(sum(is_tree(row, "single", "row") for row in values.children) > 1 for values in parts_of(tree, "values"))


def known_text(text: str, graph: Graph) -> str:
    """Rewrites a text for a SPARQL store: strings that name something become IRIs, in triple patterns and next to their variables.

    For a text that is not predicted. What cannot be parsed here is left to the store.

    Raises:
        SparqlError: The text asks another graph or service, a string in the place of a relation or after DESCRIBE names nothing, or a
            string names several entities.
    """
    try:
        tree = parse_sparql(text)
    except SparqlError:
        return text
    for kind in ("graph", "dataset"):
        for part in parts_of(tree, kind):
            raise refused(part, kind)
    try:
        terms = _terms(tree, graph)
        _find_names(tree, terms)
    except UnknownNameError:  # a relative IRI, which the store resolves
        return text
    for describe in parts_of(tree, "describe"):
        for name in (part for part in describe.children if is_tree(part, "string", "tagged")):
            terms.entity(name)
    return store_text(text, tree, terms) or text


def unknown_names(text: str, graph: Graph) -> list[str]:
    """Returns what to say about strings in the place of entities that name none, as misspelled labels do: a store reads them as texts.

    A value of a variable relation is not mentioned: it may be meant as a text.
    """
    found: list[KnownOnlyError] = []
    with suppress(SparqlError):
        tree = parse_sparql(text)
        _find_names(tree, _terms(tree, graph), found)
    return [f"{error} (it is read as a text)" for error in found if isinstance(error, UnknownNameError)]


def _find_names(tree: Node, terms: SparqlTerms, unknown: list[KnownOnlyError] | None = None) -> None:
    """Finds what strings name: in triple patterns, and where they are compared with entities or relations; also those that name nothing."""
    entities, relations = set[str](), set[str]()
    for triples in parts_of(tree, "triples"):
        entities.update(_name(triples.children[0], terms, unknown=unknown))
    for pair in parts_of(tree, "pair"):
        relation, *objects = pair.children
        relations.update(variables_of(relation))
        for kind in ("string", "tagged") if hasattr(relation, "parts") else ():
            for name in parts_of(relation, kind):
                terms.relation(name)
        if not terms.is_label(relation) and not terms.has_literals(relation):
            for object_ in objects:
                is_variable = getattr(relation, "type", None) == "VAR"
                own = _name(object_.children[0], terms, unknown=None if is_variable else unknown)
                entities.update(() if is_variable else own)
    for variable, other in _compared(tree):
        if variable in relations ^ entities:
            _name(other, terms, of_relations=variable in relations)


def _name(node: Node, terms: SparqlTerms, of_relations: bool = False, unknown: list[KnownOnlyError] | None = None) -> Sequence[str]:
    """Finds what a string names, which stays a literal if it names nothing; returns the variable, if the node is one."""
    if is_tree(node, "string", "tagged"):
        try:
            terms.known_entity(node, of_relations)
        except KnownOnlyError as error:
            if unknown is not None:
                unknown.append(error)
    return [str(node)] if getattr(node, "type", None) == "VAR" else []


def _compared(tree: Node) -> Iterator[tuple[Node, Node]]:
    """Yields what is compared with variables by conditions and VALUES: the variable, and the other side."""
    for part in (*parts_of(tree, "equal"), *parts_of(tree, "different")):
        yield from (part.children, part.children[::-1])
    for part in (*parts_of(tree, "in_"), *parts_of(tree, "not_in")):
        yield from ((part.children[0], one) for one in part.children[-1].children)
    for part in parts_of(tree, "values"):
        names = [name for name in part.children if getattr(name, "type", None) == "VAR"]
        for row in (row for row in part.children if is_tree(row, "single", "row")):
            yield from zip(names, row.children, strict=False)


def _parsed(text: str, graph: Graph) -> Node:
    try:
        return parse_sparql(text)
    except SparqlError:
        if (foreign := foreign_error(text, graph)) is not None:
            raise foreign from None
        raise


def _terms(tree: Node, graph: Graph) -> SparqlTerms:
    return SparqlTerms(graph, (part for part in tree.children if is_tree(part, "base", "prefix", "version")))


def _check_form(form: Node) -> None:
    """Raises the error for a form of query, or for a modifier, that is refused or not predicted."""
    for part in form.children:
        if is_tree(part, "dataset"):
            raise refused(part, "dataset")
    if form.data == "describe":
        raise known_only(form, "describe")
    for part in form.children:
        if is_tree(part, "group_by", "having"):
            raise known_only(part, "aggregation")
        if is_tree(part, "order"):
            raise known_only(part, "order")
        if is_tree(part, "projection"):
            for column in part.children:
                if is_tree(column, "named_expression"):
                    raise known_only(column, "expression")


def _check_reserved(tree: Node, *places: Node | list[Node]) -> None:
    if not any(token[1:] in RESERVED for token in variables_of(tree)):
        return
    for place in (part for one in places for part in (one if isinstance(one, list) else [one])):
        for token in variables_of(place):
            if token[1:] in RESERVED:
                way_out = "Use another name: this variable comes with the answers, and is allowed in SELECT only"
                raise error_at(token, f"a pattern has variables of its own, found the reserved {token}", way_out)


def _check_kinds(reader: GroupReader) -> None:
    """A variable ranges over entities, relations, labels or statements, and only over one of these."""
    for name, node in reader.nodes.entities.items():
        if name in reader.reifiers:
            raise known_only(node, "statement as node")
        if name in reader.nodes.relations:
            raise known_only(node, "two kinds")
    for name, node in reader.reifiers.items():
        if name in reader.nodes.relations or name in reader.nodes.labels:
            raise known_only(node, "statement as node")


def _columns(form: Node, places: Sequence[Node], reader: GroupReader, cases: list[Case]) -> tuple[str, ...]:
    """Returns the names of the columns: those of SELECT, or those that a template needs."""
    if form.data == "ask":
        return ()
    if form.data == "construct":
        template = next((part for part in form.children if is_tree(part, "template")), None)
        wanted = form if template is None else template
        bound = {variable.name for case in cases for variable in case.bound}
        return tuple(dict.fromkeys(token[1:] for token in variables_of(wanted) if token[1:] in bound))
    projection = next(part for part in form.children if is_tree(part, "projection"))
    names: list[str] = []
    if getattr(projection.children[0], "type", None) == "STAR":
        if reader.reifiers:
            raise known_only(projection, "statement in a row")
        # Includes variables that no case binds, such as those of a group whose condition never holds.
        return tuple(dict.fromkeys(token[1:] for place in places for token in _visible(place)))
    for token in projection.children:
        if (name := token[1:]) in reader.reifiers:
            raise known_only(token, "statement in a row")
        if name in names:
            raise error_at(token, f"SELECT names each variable once, found {token} twice", "Leave it out")
        names.append(name)
    if set(names) <= set(RESERVED):
        raise error_at(projection, f"SELECT names a variable to be found, found {', '.join(names)} only", "Name one of a pattern")
    return tuple(names)


def _distinct(form: Node) -> bool:
    """Returns whether equal rows are wanted once.

    Equal rows make the same triples: templates with blank nodes, which are new in every row, are not read here. Only OFFSET depends on
    how often a row occurs.
    """
    return (form.data == "construct" and not _count(form, "offset")) or any(
        getattr(part, "type", None) in ("DISTINCT", "REDUCED") for part in form.children
    )


def _visible(node: Node) -> Sequence[Node]:
    """Returns the variables that a group binds: all but those of its conditions and of MINUS."""
    if not hasattr(node, "children") or is_tree(node, "filter", "minus"):
        return [] if hasattr(node, "children") else variables_of(node)
    return [token for child in node.children for token in _visible(child)]


def _has_atoms(case: Case) -> bool:
    return any(True for part in case.conditions for _ in atoms_of(part))


def _template(form: Node, terms: SparqlTerms) -> tuple[tuple[Term, Term, Term], ...]:
    """Returns the triples that each row becomes: variables, and terms in N-Triples.

    Raises:
        KnownOnlyError: They have qualifiers, blank nodes or literals.
    """
    template = next((part for part in form.children if is_tree(part, "template", "group")), form)
    triples = [part for part in template.children if is_tree(part, "triples")]
    patterns = Patterns(triples, terms)
    found = []
    for triple in patterns.plain:
        if patterns.key(triple.subject)[0] in ("blank", "anonymous") or patterns.key(triple.object)[0] in ("blank", "anonymous"):
            raise known_only(triple.relation, "statement as node")
        if is_path(triple.relation) or hasattr(triple.subject, "children") or hasattr(triple.object, "children"):
            raise known_only(triple.relation, "qualified path" if is_path(triple.relation) else "literal")
        nodes = (triple.subject, triple.relation, triple.object)
        head, relation, tail = (Variable(node[1:]) if node.type == "VAR" else f"<{terms.iri(node)}>" for node in nodes)
        found.append((head, relation, tail))
    if patterns.reified:
        raise known_only(template, "statement as node")
    return tuple(found)


def store_text(
    text: str, tree: Node, terms: SparqlTerms, columns: Sequence[str] | None = None, rewritten: Sequence[tuple[int, int, str]] = ()
) -> str | None:
    """Rewrites a text for a SPARQL store; None if a string names a blank node, which SPARQL cannot name.

    Strings that name something become IRIs, `SERVICE <urn:starqe:known>` becomes a plain group, and the reserved columns go. With
    columns, the text of a request is written: it selects them whatever its form is, without LIMIT and OFFSET.
    """
    edits = [(start, end, iri) for start, (end, iri) in terms.written.items() if iri is not None]
    if len(edits) < len(terms.written):
        return None
    edits += [*rewritten, *_empty_lists(tree)]
    for service in parts_of(tree, "service"):
        edits.append((service.start_pos, service.children[-1].start_pos, ""))
    for projection in parts_of(tree, "projection"):
        variables = [one for one in projection.children if getattr(one, "type", None) == "VAR"]
        edits += [(one.start_pos, one.end_pos, "") for one in variables if one[1:] in RESERVED]
    if columns is not None:
        form = next(part for part in tree.children if is_tree(part, "select", "ask", "construct"))
        edits += [(one.start_pos, one.end_pos, "") for one in form.children if is_tree(one, "limit", "offset")]
        if form.data != "select":
            group = next(part for part in form.children if is_tree(part, "group"))
            head = " ".join(f"?{name}" for name in columns) if form.data == "construct" and columns else "*"
            edits = [edit for edit in edits if edit[0] >= group.start_pos]
            edits.append((form.start_pos, group.start_pos, f"SELECT {'DISTINCT ' * _distinct(form)}{head}"))
    parts, place = [], 0
    for start, end, written in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start >= place:  # else the last edit replaces it already
            parts += [text[place:start], written]
            place = end
    return " ".join([*parts, text[place:]])


def _empty_lists(tree: Node) -> Iterator[tuple[int, int, str]]:
    """Yields the edits for IN () and NOT IN (), which SPARQL defines as false and true; Oxigraph refuses them."""
    for kind, value in (("in_", "false"), ("not_in", "true")):
        for part in parts_of(tree, kind):
            if not part.children[-1].children:
                yield part.start_pos, part.end_pos, value


def _count(form: Node, kind: str) -> int | None:
    """Returns the number after LIMIT or OFFSET, if there is one."""
    for part in form.children:
        if is_tree(part, kind):
            (number,) = part.children
            if len(number) > _MAX_DIGITS:
                raise error_at(number, f"{kind.upper()} has at most {_MAX_DIGITS} digits, found {len(number)}", "Leave it out")
            return int(number)
    return None
