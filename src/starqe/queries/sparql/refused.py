"""Parts of SPARQL that starqe does not answer: every construct by its name, with what to write instead."""

from collections.abc import Mapping

_UPDATE = "starqe answers queries, and never changes the graph: import it again with 'starqe data import'"
_ALL_PATTERNS = "Every pattern of a query must hold: ask without it, or ask two queries"
_CONDITION = "Ask without the condition, and filter the answers"
_SHAPED = "Answers come ranked, the best first: count or sort them in your own program"
_ONE_GRAPH = "There is one graph, the one that the model was trained on: leave this out"
_SELECT_ONLY = "Use SELECT with the variable you want to find"
_PATH = "Write a triple pattern for each step, with a variable between them"
_PLAIN = "docs/language.md lists what is answered"

WORDS: Mapping[str, str] = {
    "OPTIONAL": _ALL_PATTERNS,
    "UNION": _ALL_PATTERNS,
    "MINUS": _ALL_PATTERNS,
    "NOT": _ALL_PATTERNS,
    "EXISTS": _ALL_PATTERNS,
    "LATERAL": _ALL_PATTERNS,
    "FILTER": _CONDITION,
    "BIND": "Write the entity itself where the variable stands, or give it by VALUES",
    "AS": "SELECT takes variables as they are",
    "GROUP": _SHAPED,
    "ORDER": _SHAPED,
    "HAVING": _SHAPED,
    "BY": _SHAPED,
    "COUNT": _SHAPED,
    "SUM": _SHAPED,
    "MIN": _SHAPED,
    "MAX": _SHAPED,
    "AVG": _SHAPED,
    "SAMPLE": _SHAPED,
    "GROUP_CONCAT": _SHAPED,
    "GRAPH": _ONE_GRAPH,
    "FROM": _ONE_GRAPH,
    "NAMED": _ONE_GRAPH,
    "SERVICE": _ONE_GRAPH,
    "ASK": _SELECT_ONLY,
    "CONSTRUCT": _SELECT_ONLY,
    "DESCRIBE": _SELECT_ONLY,
    "TRUE": "A boolean is no entity: leave the pattern out",
    "FALSE": "A boolean is no entity: leave the pattern out",
    **dict.fromkeys(("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH"), _UPDATE),
}
"""Every keyword that is refused anywhere in a query, and what to do instead."""

REFUSED = frozenset(word for word, way_out in WORDS.items() if way_out in (_UPDATE, _ONE_GRAPH))
"""The keywords that are refused altogether: there is one graph, and it is never changed. Known facts answer all others."""
WITHOUT_MEANING = frozenset(("number", "datatype", "direction"))
"""The constructs that no fact could match, since tails and values are entities."""

NAMES: Mapping[str, str] = {
    "NOT": "NOT (as in NOT EXISTS)",
    "AS": "an expression in SELECT (AS)",
    "GROUP": "GROUP BY",
    "ORDER": "ORDER BY",
    **{word: f"the aggregate {word}" for word in ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")},
    **{word: f"the boolean '{word.lower()}'" for word in ("TRUE", "FALSE")},
    **{word: f"the update {word}" for word in ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH")},
}
"""The name of a keyword in an error, if it is not just the keyword."""

SIGNS: Mapping[str, tuple[str, str]] = {
    **{sign: (f"a property path ('{sign}')", _PATH) for sign in ("/", "|", "^", "!", "*", "+", "?", "-")},
    **{sign: (f"an expression ('{sign}')", _CONDITION) for sign in ("||", "&&", "!=", "<=", ">=", "=", ">")},
}
"""Every sign that is refused anywhere in a pattern: its name, and what to do instead."""

CONSTRUCTS: Mapping[str, tuple[str, str]] = {
    "star": ("SELECT *", "Name the variables; the first one is the target, whose values are ranked"),
    "sub-select": ("a sub-select", _ALL_PATTERNS),
    "nested group": ("a group within a group", "Write all patterns between one pair of braces"),
    "expression": ("an expression in SELECT", "SELECT takes variables as they are"),
    "path": ("a property path in parentheses", _PATH),
    "collection": ("a collection '( … )'", "Write its items as triple patterns"),
    "number": ("a number", 'A number is no entity. An entity with such a label, say a year, is written in quotes: "1921"'),
    "datatype": ("a literal with a datatype", "Only entities take part: write the entity's IRI, or its label as a plain string"),
    "direction": ("a language tag with a direction", 'Write the language alone, as in "Wien"@de'),
    "variable relation": ("a variable as a relation", "Ask one query for each relation"),
    "variable value": ("a variable as a qualifier value", "Give an entity as the value"),
    "statement as node": ("a statement as an entity", "A statement stands as the subject of its qualifiers: << s p o >> :qualifier :value"),
    "qualified qualifier": ("a qualifier of a qualifier", "Qualifiers belong to the main triple of a statement"),
    "triple term": ("a triple term other than after rdf:reifies", "Write << s p o >> :qualifier :value"),
    "reifies": ("rdf:reifies without a triple term", "Write ?r rdf:reifies <<( s p o )>>, or << s p o >>"),
    "many rows": ("VALUES with several rows", "Ask one query for each row"),
    "no row": ("VALUES without a row", "Give each variable one entity: VALUES ?x { :a }"),
    "undef": ("UNDEF", "Leave the variable out of VALUES"),
}
"""Every other construct that is refused: its name, and what to do instead."""


def rule_of(name: str, *, refused: bool = False) -> str:
    """Says that a construct is refused, or not predicted."""
    return f"{name} is refused" if refused else f"{name} is not predicted"


def word_refusal(word: str) -> tuple[str, str] | None:
    """Returns the rule and the way out for a keyword that is refused, or None for any other word."""
    word = word.upper()
    return (rule_of(NAMES.get(word, word), refused=word in REFUSED), WORDS[word]) if word in WORDS else None


def sign_refusal(sign: str) -> tuple[str, str]:
    """Returns the rule and the way out for a sign."""
    name, way_out = SIGNS.get(sign, (f"'{sign}'", _PLAIN))
    return rule_of(name), way_out


def construct_refusal(construct: str) -> tuple[str, str]:
    """Returns the rule and the way out for one of `CONSTRUCTS`."""
    name, way_out = CONSTRUCTS[construct]
    return rule_of(name, refused=construct in WITHOUT_MEANING), way_out
