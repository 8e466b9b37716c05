"""What is not predicted, and what is refused: every construct by its name, with the reason and what to do instead."""

from collections.abc import Mapping

_UPDATE = "A query never changes the graph. 'starqe data update' adds and removes statements"
_ONE_GRAPH = "There is one graph, the one that the model was trained on: leave this out"
_SHAPED = "What is counted, sorted or computed has no probability: ask for the rows themselves to get predictions"
_STATEMENT = "A statement stands as the subject of its qualifiers: << s p o >> :qualifier :value"

UPDATES = frozenset(("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH"))
"""The keywords that begin an update."""

REFUSED: Mapping[str, tuple[str, str]] = {
    "update": ("an update", _UPDATE),
    "graph": ("GRAPH", _ONE_GRAPH),
    "dataset": ("FROM", _ONE_GRAPH),
    "service": ("SERVICE", "Queries are answered from this graph alone. SERVICE <urn:starqe:known> { … } asks for facts only"),
}
"""What is refused altogether: its name, and the reason."""

KNOWN_ONLY: Mapping[str, tuple[str, str]] = {
    "describe": ("DESCRIBE", "SELECT and CONSTRUCT say what is wanted"),
    "expression": ("an expression in SELECT (AS)", _SHAPED),
    "aggregation": ("GROUP BY or HAVING", _SHAPED),
    "order": ("ORDER BY", "Predicted answers come ranked, the most probable first: leave it out to get them"),
    "bind": ("BIND", _SHAPED),
    "sub-select": ("a sub-select", "Write its patterns in a group of their own: { … }"),
    "recursion": ("a path with * or +", "A path of any length has no best step: write the steps, as in :p/:p"),
    "negated path": ("a negated path '!'", "Write a variable as the relation, and FILTER (?p != :r)"),
    "qualified path": ("a qualifier of a path", "Write a triple pattern for each step"),
    "collection": ("a collection '( … )'", "Write its items as triple patterns"),
    "literal": (
        "a literal as a value (a date, a number, a text)",
        'An entity with such a label is written in quotes: "1921"',
    ),
    "function": ("this expression", "A condition is made of =, !=, IN, NOT IN, EXISTS, BOUND, &&, || and !, or of the language of a label"),
    "statement as node": ("a statement as an entity", _STATEMENT),
    "qualified qualifier": ("a qualifier of a qualifier", "Qualifiers belong to the main triple of a statement"),
    "triple term": ("a triple term other than after rdf:reifies", "Write << s p o >> :qualifier :value"),
    "reifies": ("rdf:reifies without a triple term", "Write ?r rdf:reifies <<( s p o )>>, or << s p o >>"),
    "no qualifier": ("a quoted statement without a qualifier", f"{_STATEMENT}. Or write the triple alone"),
    "named statement": ("a statement with a name (an IRI as its reifier)", "Statements have no names here: write a variable"),
    "two statements": ("a reifier of two statements", "A reifier belongs to one statement: use another variable for the second"),
    "statement in a row": ("a statement as an answer", "Ask for its head, relation, tail and qualifiers"),
    "two kinds": ("a variable as a relation and as an entity", "Use two variables"),
    "label": ("this use of a label", "A label is shown with its entity, in a column of its own"),
    "open negation": (
        "a negation that may be about labels or about statements as nodes",
        "Give the relation, and begin the pattern at a variable that is bound outside",
    ),
    "many alternatives": ("a query with too many cases", "Each OPTIONAL, and each UNION of different variables, doubles them"),
    "never": ("a query whose conditions never hold", "Is one of them meant to be the other way round, such as NOT IN?"),
    "no pattern": ("a query without a triple pattern, but for labels", "Write one, such as ?x :bornIn :Ulm"),
}
"""What known facts alone answer: its name, and the reason or how to ask for predictions instead."""
