"""The query language: the conjunctive core of SPARQL 1.2, from text to a query over one graph.

What a text means is written down in docs/language.md. Two rules are decided here. A reifier (named, or the new one of
``<< s p o >>`` and ``{| |}``) is one statement, and the triples from it are the pairs of one atom. And a plain triple
``s p o`` adds no atom where ``<< s p o >>`` is quoted too: in RDF 1.2 quoting does not assert, so texts write both.
"""

from itertools import count

from starqe.errors import KnownOnlyError, QueryError, SparqlError
from starqe.kg.graph import Graph
from starqe.queries.formula import And, Atom, Term, Variable
from starqe.queries.query import Query
from starqe.queries.sparql.foreign import foreign_error
from starqe.queries.sparql.patterns import Key, Patterns, Triple, is_tree, variables_of
from starqe.queries.sparql.request import RESERVED, Alternative, SparqlRequest
from starqe.queries.sparql.syntax import Node, error_at, parse_sparql, refused
from starqe.queries.sparql.terms import SparqlTerms

_MAX_DIGITS = 18


def read_sparql(text: str, graph: Graph, max_atoms: int | None = None) -> SparqlRequest:
    """Reads a text as a query over a graph.

    Args:
        text: The text.
        graph: What names and labels are looked up in; every entity and relation of the query is one of this graph.
        max_atoms: The largest number of atoms.

    Raises:
        SparqlError: The text breaks a rule, or names what the graph does not have.
        KnownOnlyError: It asks in a form that is not predicted.
    """
    try:
        tree = parse_sparql(text)
    except SparqlError:
        if (foreign := foreign_error(text, graph)) is not None:
            raise foreign from None
        raise
    reader = _Reader(tree, graph)
    atoms = reader.atoms()
    if not atoms:
        raise error_at(reader.group, "a query asks for at least one statement, found none", "Write a pattern, such as ?x :bornIn :Ulm")
    if max_atoms is not None and len(atoms) > max_atoms:
        raise error_at(reader.group, f"a query has at most {max_atoms:,} patterns here, found {len(atoms):,}", "Ask several queries")
    columns = reader.columns()
    answers = tuple(Variable(name) for name in columns if name not in RESERVED and name not in reader.given)
    try:
        query = Query(And(tuple(atoms)), answers)
    except QueryError as error:
        way_out = f"Connect every pattern with {answers[0]}, and name an entity"
        raise error_at(reader.group, str(error), way_out, kind=KnownOnlyError) from None
    given = tuple((Variable(name), entity) for name, entity in reader.given.items() if name in columns)
    distinct = any(getattr(part, "type", None) in ("DISTINCT", "REDUCED") for part in tree.children)
    return SparqlRequest((Alternative(query, given),), columns, distinct, _count(tree, "limit"), _count(tree, "offset") or 0)


class _Reader:
    """Turns the tree of one text into atoms and columns; its methods raise a SparqlError at the place that breaks a rule."""

    def __init__(self, tree: Node, graph: Graph) -> None:
        self._projection, self.group = (next(part for part in tree.children if is_tree(part, kind)) for kind in ("projection", "group"))
        values = [part for part in (*self.group.children, *tree.children) if is_tree(part, "values")]
        for part in (self.group, *values):
            for token in variables_of(part):
                if token[1:] in RESERVED:
                    way_out = "Use another name: this variable comes with the answers, and is allowed in SELECT only"
                    raise error_at(token, f"a pattern has variables of its own, found the reserved {token}", way_out)
        self._terms = SparqlTerms(graph, (part for part in tree.children if is_tree(part, "base", "prefix", "version")))
        self._patterns = Patterns((part for part in self.group.children if is_tree(part, "triples")), self._terms)
        self._reifiers = {self._patterns.key(reified.reifier) for reified in self._patterns.reified}
        self._used: set[str] = set()
        taken = {token[1:] for token in variables_of(tree)}
        self._fresh = (Variable(name) for number in count(1) if (name := f"blank{number}") not in taken)
        self._blanks: dict[Key, Variable] = {}
        self._given_at: dict[str, Node] = {}
        self.given: dict[str, str] = {}
        """The entities that VALUES gives to variables, by name."""
        for part in values:
            self._give(part)

    def atoms(self) -> list[Atom]:
        """Returns an atom for each statement that is asked for."""
        mains, quoted, places = self._statements()
        pairs: dict[Key, list[tuple[Term, Term]]] = {key: [] for key in mains}
        plain = []
        for triple in self._patterns.plain:
            if (key := self._patterns.key(triple.subject)) in pairs:
                pairs[key].append((self._relation(triple.relation), self._value(triple.object)))
            else:
                plain.append(self._main(triple))
        for key, found in pairs.items():
            if not found:
                way_out = "Give it one, as in << s p o >> :qualifier :value, or write the triple alone"
                raise error_at(places[key], "a quoted statement, or one with a reifier, has a qualifier, found none", way_out)
        for name, place in self._given_at.items():
            if name not in self._used:
                raise error_at(place, f"VALUES gives variables of the patterns, and {place} is in none", "Leave it out")
        return [Atom(*mains[key], tuple(found)) for key, found in pairs.items()] + [Atom(*main) for main in plain if main not in quoted]

    def _statements(self) -> tuple[dict[Key, tuple[Term, Term, Term]], set[tuple[Term, Term, Term]], dict[Key, Node]]:
        """Returns the main triple of each reifier, the triples that are quoted, and where the reifiers stand."""
        mains: dict[Key, tuple[Term, Term, Term]] = {}
        quoted, places = set(), {}
        for reified in self._patterns.reified:
            key = self._patterns.key(reified.reifier)
            if key[0] == "literal":
                raise error_at(reified.reifier, "a reifier is a variable, a blank node or an IRI, found a literal", "Write ?r there")
            if self._patterns.key(reified.triple.subject) in self._reifiers:
                raise refused(reified.triple.subject, "qualified qualifier")
            main = self._main(reified.triple)
            if mains.setdefault(key, main) != main:
                raise error_at(reified.reifier, "a reifier stands for one statement, found a second one for it", "Use another variable")
            places[key] = reified.reifier
            if not reified.annotated:
                quoted.add(main)
        return mains, quoted, places

    def columns(self) -> tuple[str, ...]:
        """Returns the names of the projected variables; `atoms` comes first."""
        names: list[str] = []
        for token in self._projection.children:
            name = token[1:]
            if name in names:
                raise error_at(token, f"SELECT names each variable once, found {token} twice", "Leave it out")
            if ("variable", name) in self._reifiers:
                raise error_at(token, f"SELECT shows entities, and {token} stands for a statement", "Leave it out", kind=KnownOnlyError)
            if name not in self._used and name not in RESERVED:
                raise error_at(token, f"SELECT shows variables of the patterns, and {token} is in none", "Is it spelled as in the pattern?")
            if name in self.given and not set(names) - set(RESERVED):
                raise error_at(
                    token, f"the first variable of SELECT is to be found, and VALUES gives {token}", "Begin with another variable"
                )
            names.append(name)
        if set(names) <= set(RESERVED):
            raise error_at(self._projection, f"SELECT names a variable to be found, found {', '.join(names)} only", "Name one of a pattern")
        return tuple(names)

    def _give(self, values: Node) -> None:
        """Reads VALUES: one entity for each variable."""
        variables = [child for child in values.children if not is_tree(child, "single", "row")]
        rows = [child for child in values.children if is_tree(child, "single", "row")]
        if not rows or not variables:
            raise refused(values, "no row")
        if len(rows) > 1:
            raise refused(rows[1], "many rows")
        if len(rows[0].children) != len(variables):
            found = f"found {len(variables)} and {len(rows[0].children)}"
            raise error_at(rows[0], f"VALUES has a value for each variable, {found}", "Write VALUES (?x ?y) { (:a :b) }")
        for token, node in zip(variables, rows[0].children, strict=True):
            if token[1:] in self.given:
                raise error_at(token, f"a variable is given once, found {token} again", "Leave it out")
            if getattr(node, "type", None) == "UNDEF":
                raise refused(node, "undef")
            if is_tree(node, "triple_term"):
                raise refused(node, "triple term")
            self.given[token[1:]], self._given_at[token[1:]] = self._terms.entity(node), token

    def _main(self, triple: Triple) -> tuple[Term, Term, Term]:
        return self._entity(triple.subject), self._relation(triple.relation), self._entity(triple.object)

    def _entity(self, node: Node) -> Term:
        """Reads what stands as head or tail."""
        key = self._patterns.key(node)
        if key[0] in ("iri", "literal"):
            return self._terms.entity(node)
        if key in self._reifiers:
            raise refused(node, "statement as node")
        if key[0] == "variable":
            name = str(key[1])
            self._used.add(name)
            return self.given.get(name) or Variable(name)
        if key not in self._blanks:
            self._blanks[key] = next(self._fresh)
        return self._blanks[key]

    def _value(self, node: Node) -> Term:
        """Reads what stands as the value of a pair."""
        value = self._entity(node)
        if isinstance(value, Variable):
            raise refused(node, "variable value")
        return value

    def _relation(self, node: Node) -> Term:
        if getattr(node, "type", None) == "VAR":
            raise refused(node, "variable relation")
        return self._terms.relation(node)


def _count(tree: Node, kind: str) -> int | None:
    """Returns the number after LIMIT or OFFSET, if there is one."""
    for part in tree.children:
        if is_tree(part, kind):
            (number,) = part.children
            if len(number) > _MAX_DIGITS:
                raise error_at(number, f"{kind.upper()} has at most {_MAX_DIGITS} digits, found {len(number)}", "Leave it out")
            return int(number)
    return None
