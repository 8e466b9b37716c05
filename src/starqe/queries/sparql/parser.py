"""Tokens and syntax trees of SPARQL texts. lark compiles the grammar; this module parses by lark's tables, faster than lark does.

It imports lark, so it is only imported when a text is read.
"""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from lark import Lark, Token, Tree
from lark.common import LexerConf
from lark.grammar import Rule, Terminal
from lark.parsers.lalr_analysis import Shift

WORD = "WORD"
"""The terminal that also matches keywords."""
END = "$END"
"""The type of the token after the last one."""


class UnknownCharacterError(Exception):
    """No token begins at a place of the text; never leaves this package."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class UnexpectedTokenError(Exception):
    """A token stands where others are expected; never leaves this package."""

    def __init__(self, token: Token, accepted: frozenset[str]) -> None:
        super().__init__(token)
        self.token, self.accepted = token, accepted


class SparqlLexer:
    """Finds the tokens of a text by one regular expression, with the priorities of lark's own lexer; keywords are matched as words."""

    def __init__(self, conf: LexerConf) -> None:
        word = next(re.compile(one.pattern.to_regexp()) for one in conf.terminals if one.name == WORD)
        self._exact: dict[str, str] = {}
        self._words: dict[str, str] = {}
        others = []
        for one in conf.terminals:
            if one.pattern.type == "str" and word.fullmatch(one.pattern.value):
                (self._words if "i" in one.pattern.flags else self._exact)[one.pattern.value] = one.name
            elif one.name not in conf.ignore:
                others.append(one)
        others.sort(key=lambda one: (-one.priority, -one.pattern.max_width, -len(one.pattern.value), one.name))
        self._match = re.compile("|".join(f"(?P<{one.name}>{one.pattern.to_regexp()})" for one in others)).match
        self._skip = re.compile(f"(?:{'|'.join(one.pattern.to_regexp() for one in conf.terminals if one.name in conf.ignore)})*").match

    def lex(self, text: str, limit: int | None = None) -> list[Token]:
        """Returns the tokens of a text and an end token; with a limit, at most one token more than the limit.

        Raises:
            UnknownCharacterError: No token begins with a character.
        """
        match, skip, words, exact = self._match, self._skip, self._words, self._exact
        found: list[Token] = []
        place, line, line_start, size = 0, 1, 0, len(text)
        while limit is None or len(found) <= limit:
            start = skip(text, place).end()  # type: ignore[union-attr]
            if start > place and (breaks := text.count("\n", place, start)):
                line, line_start = line + breaks, text.rfind("\n", place, start) + 1
            if start == size:
                break
            if (one := match(text, start)) is None:
                raise UnknownCharacterError(start)
            kind, value, place = one.lastgroup, one[0], one.end()
            if kind == WORD:
                kind = exact.get(value) or words.get(value.upper(), WORD)
            # Same as Token(…), without its two calls.
            token: Token = str.__new__(Token, value)
            token.type, token.value, token.start_pos, token.line, token.column = kind, value, start, line, start - line_start + 1  # type: ignore[assignment]
            if "\n" in value:
                line, line_start = line + value.count("\n"), start + value.rfind("\n") + 1
            token.end_line, token.end_column, token.end_pos = line, place - line_start + 1, place
            found.append(token)
        found.append(Token.new_borrow_pos(END, "", found[-1]) if found else Token(END, "", 0, 1, 1, 1, 1, 0))
        return found


class SyntaxTree(Tree[Token]):
    """A tree with its first and last token; all of its parts by kind are found in one pass."""

    first: Token | None
    """The first token that it covers, which need not be among its children; None for an empty tree."""
    last: Token | None

    def __init__(self, data: str, children: list[Any], first: Token | None = None, last: Token | None = None) -> None:
        self.data, self.children, self.first, self.last = data, children, first, last

    @property
    def start_pos(self) -> int:
        """Where it begins in the text."""
        assert self.first is not None, "an empty tree has no position"
        return self.first.start_pos or 0

    @property
    def end_pos(self) -> int:
        """Where it ends in the text."""
        assert self.last is not None, "an empty tree has no position"
        return self.last.end_pos or 0

    @cached_property
    def parts(self) -> dict[str, list[Any]]:
        """All trees and tokens below this tree. The tree itself is left out: it would be a reference cycle."""
        found: dict[str, list[Any]] = {}
        left: list[Any] = self.children[::-1]
        while left:
            node = left.pop()
            if node is None:
                continue
            if (kind := getattr(node, "type", None)) is None:
                kind = node.data
                left += node.children[::-1]
            if kind in found:
                found[kind].append(node)
            else:
                found[kind] = [node]
        return found


class SparqlParser:
    """Builds syntax trees from tokens, by a grammar.

    Args:
        grammar: The grammar, in lark's notation.
    """

    def __init__(self, grammar: str) -> None:
        self.lark = Lark(grammar, parser="lalr", lexer="basic")
        frontend: Any = self.lark.parser
        self.lexer = SparqlLexer(frontend.lexer_conf)
        table = frontend.parser.parser.parse_table
        self._first_state, self._last_state = table.start_states["start"], table.end_states["start"]
        # By state and symbol: the next state, or the rule that ends here (its length, its name, and the function that builds its tree).
        rules = {rule: (len(rule.expansion), str(rule.origin.name), _maker(rule)) for rule in frontend.parser.parser.callbacks}
        self._actions: dict[int, dict[str, Any]] = {
            state: {symbol: argument if kind is Shift else rules[argument] for symbol, (kind, argument) in actions.items()}
            for state, actions in table.states.items()
        }

    def parse(self, tokens: list[Token]) -> SyntaxTree:
        """Returns the tree of some tokens, the last of which is the end token.

        Raises:
            UnexpectedTokenError: The grammar does not allow a token at its place.
        """
        actions, last_state = self._actions, self._last_state
        states, values = [self._first_state], list[Any]()
        firsts, lasts = list[Token | None](), list[Token | None]()  # of each value; None for one that covers no token
        for token in tokens:
            kind = token.type
            while (action := actions[states[-1]].get(kind)).__class__ is tuple:
                size, name, make = action
                if size:
                    value = make(values[-size:])
                    if size == 1:
                        first, last = firsts[-1], lasts[-1]
                    else:
                        first = firsts[-size] or next(filter(None, firsts[-size:]), None)
                        last = lasts[-1] or next(filter(None, reversed(lasts[-size:])), None)
                    del states[-size:], values[-size:], firsts[-size:], lasts[-size:]
                else:
                    value, first, last = make([]), None, None
                # A tree that a rule only passes on keeps its own place.
                if value.__class__ is SyntaxTree and value.first is None:
                    value.first, value.last = first, last
                states.append(actions[states[-1]][name])
                values.append(value)
                firsts.append(first)
                lasts.append(last)
                if states[-1] == last_state:
                    return value  # type: ignore[no-any-return]
            if action is None:
                raise UnexpectedTokenError(token, self._accepted(states))
            states.append(action)
            values.append(token)
            firsts.append(token)
            lasts.append(token)
        raise AssertionError("the end token completes the tree")

    def _accepted(self, states: list[int]) -> frozenset[str]:
        """Returns the types of the tokens that may follow."""
        return frozenset(kind for kind in self._actions[states[-1]] if kind.isupper() and self._accepts(list(states), kind))

    def _accepts(self, states: list[int], kind: str) -> bool:
        while (action := self._actions[states[-1]].get(kind)).__class__ is tuple:
            size, name, _ = action
            del states[len(states) - size :]
            states.append(self._actions[states[-1]][name])
            if states[-1] == self._last_state:
                return True
        return action is not None


def _maker(rule: Rule) -> Callable[[list[Any]], Any]:
    """Returns the function that builds the node of a rule from its values, as lark does.

    Tokens whose names begin with "_", and those without a name, are left out. A rule whose name begins with "_" gives its children to
    its parent, one with "?" passes a single child on, and what is left out of [ ] becomes None.
    """
    options, name = rule.options, str(rule.alias or rule.options.template_source or rule.origin.name)
    missing = "".join(str(int(left_out)) for left_out in options.empty_indices).split("0") if options.empty_indices else []
    nones = [[None] * len(run) for run in missing] or [[] for _ in range(len(rule.expansion) + 1)]  # before each value, and after the last
    kept = [
        (place, not symbol.is_term and symbol.name.startswith("_"))
        for place, symbol in enumerate(rule.expansion)
        if options.keep_all_tokens or not (isinstance(symbol, Terminal) and symbol.filter_out)
    ]
    passes_on = options.expand1 and not rule.alias

    def with_all(values: list[Any]) -> Any:
        return values[0] if passes_on and len(values) == 1 else SyntaxTree(name, values)

    def with_some(values: list[Any]) -> Any:
        found = list[Any]()
        for place, inlined in kept:
            if not inlined:
                found.append(values[place])
            elif found:
                found += values[place].children
            else:  # no other node uses the list, so a long list that grows at its end is not copied each time
                found = values[place].children
        return with_all(found)

    def with_nones(values: list[Any]) -> Any:
        included, found = dict(kept), list[Any]()
        for place, value in enumerate(values):
            found += nones[place]
            if place in included:
                found += value.children if included[place] else (value,)
        return with_all([*found, *nones[-1]])

    if any(nones):
        return with_nones
    return with_all if len(kept) == len(rule.expansion) and not any(inlined for _, inlined in kept) else with_some
