"""Tokens to a syntax tree, by precedence climbing.

Macros are expanded while parsing (`macros.py`), as upstream does, so that everything after knows
loops and bindings only.  Next: `checker.py`.
"""

from __future__ import annotations

from stowplan.cel.errors import SyntaxProblem
from stowplan.cel.lexer import Token, tokens_of
from stowplan.cel.macros import expand
from stowplan.cel.syntax import (
    Call,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Message,
    Node,
    Select,
    children,
)
from stowplan.cel.values import INT_MAX

NESTING_MAX = 100
"""Levels of the tree, and of operators inside each other while it is read.  Each costs a few Python
frames, here and in every later pass; kube-scheduler stops at 250."""

NODES_MAX = 20_000
"""Some macros repeat their operand, so that a short text can be a huge tree."""

_PRECEDENCE = {
    "||": 1, "&&": 2,
    "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "in": 3,
    "+": 4, "-": 4,
    "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
        *("loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_TERM = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
    "BYTES, IDENTIFIER}"
)


def parse(text: str) -> Node:
    """Raises `SyntaxProblem`."""
    parser = _Parser(tokens_of(text))
    node = parser.expression()
    check_depth(node)
    if parser.next.kind != "end":
        problem = f"Syntax error: mismatched input '{parser.next.text}' expecting <EOF>"
        raise SyntaxProblem(parser.next.position, problem)
    return node


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0
        self.next = tokens[0]

    def expression(self) -> Node:
        node = self._binary(1)
        if self.next.kind == "?":
            position = self._take().position
            chosen = self._binary(1)
            self._expect(":")
            self._depth += 1
            node = Call(position, "_?_:_", [node, chosen, self.expression()])
            self._depth -= 1
        return node

    def _binary(self, lowest: int) -> Node:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise _too_deep(self.next.position)
        node = self._unary()
        while (precedence := _PRECEDENCE.get(self.next.kind, 0)) >= lowest:
            operator = self._take()
            right = self._binary(precedence + 1)
            name = "@in" if operator.kind == "in" else f"_{operator.kind}_"
            if precedence <= 2 and isinstance(node, Call) and node.function == name:
                node.args.append(right)
            else:
                node = Call(operator.position, name, [node, right])
        self._depth -= 1
        return node

    def _unary(self) -> Node:
        first = self.next
        if first.kind == "!":
            return self._repeated("!", "!_")
        if first.kind == "-" and self._tokens[self._index + 1].kind not in ("int", "float"):
            return self._repeated("-", "-_")
        return self._member()

    def _repeated(self, operator: str, function: str) -> Node:
        """`!!x` is `x`: pairs cancel out."""
        position, count = self.next.position, 0
        while self.next.kind == operator:
            self._take()
            count += 1
        operand = self._member()
        return Call(position, function, [operand]) if count % 2 else operand

    def _member(self) -> Node:
        node = self._primary()
        while True:
            match self.next.kind:
                case ".":
                    node = self._selection(node)
                case "[":
                    position = self._take().position
                    optional = self._accept("?")
                    index = self.expression()
                    self._expect("]")
                    node = Call(position, "_[?_]" if optional else "_[_]", [node, index])
                case _:
                    return node

    def _selection(self, operand: Node) -> Node:
        dot = self._take().position
        if self._accept("?"):
            name = self._name()
            return Call(dot, "_?._", [operand, Literal(name.position, name.text)])
        name = self._name()
        if self.next.kind == "(":
            position = self._take().position
            return expand(Call(position, name.text, self._expressions(")"), operand))
        return Select(dot, operand, name.text)

    def _name(self) -> Token:
        token = self._take()
        if token.kind == "quoted":
            raise SyntaxProblem(token.position, "unsupported syntax: '`'")
        if token.kind != "name":
            problem = f"Syntax error: no viable alternative at input '.{token.text}'"
            raise SyntaxProblem(token.position, problem)
        return token

    def _primary(self) -> Node:
        token = self._take()
        match token.kind:
            case "literal" | "float":
                return Literal(token.position, token.value)
            case "int":
                return _integer(token, token.position, 1)
            case "-":
                number = self._take()
                if number.kind == "int":
                    return _integer(number, token.position, -1)
                assert isinstance(number.value, float)
                return Literal(token.position, -number.value)
            case "(":
                node = self.expression()
                self._expect(")")
                return node
            case "[":
                return self._list(token.position)
            case "{":
                return self._map(token.position)
            case "name":
                return self._identifier(token)
            case "." if self.next.kind == "name":
                return self._identifier(self._take(), absolute=True)
            case _:
                problem = f"Syntax error: mismatched input '{token.text}' expecting {_TERM}"
                raise SyntaxProblem(token.position, problem)

    def _identifier(self, name: Token, *, absolute: bool = False) -> Node:
        if name.text in _RESERVED:
            raise SyntaxProblem(name.position, f"reserved identifier: {name.text}")
        dot = "." if absolute else ""
        if self.next.kind == "(":
            position = self._take().position
            call = Call(position, f"{dot}{name.text}", self._expressions(")"))
            return call if absolute else expand(call)
        if (message := self._message(name)) is not None:
            return message
        return Ident(name.position, f"{dot}{name.text}")

    def _message(self, name: Token) -> Message | None:
        """`a.b.c{field: value}`: there are no messages to make, which the checker will say."""
        ahead, names = self._index, [name.text]
        while self._tokens[ahead].kind == "." and self._tokens[ahead + 1].kind == "name":
            names.append(self._tokens[ahead + 1].text)
            ahead += 2
        if self._tokens[ahead].kind != "{":
            return None
        self._index = ahead
        self.next = self._tokens[ahead]
        position = self._take().position
        while self.next.kind not in ("}", ","):
            self._accept("?")
            self._name()
            self._expect(":")
            self.expression()
            if self.next.kind != "," or self._tokens[self._index + 1].kind == "}":
                break
            self._take()
        self._accept(",")
        self._expect("}")
        return Message(position, ".".join(names))

    def _expressions(self, closing: str) -> list[Node]:
        found: list[Node] = []
        if self._accept(closing):
            return found
        found.append(self.expression())
        while self._accept(","):
            found.append(self.expression())
        self._expect(closing)
        return found

    def _list(self, position: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while self.next.kind not in ("]", ","):
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if self.next.kind != "," or self._tokens[self._index + 1].kind == "]":
                break
            self._take()
        self._accept(",")
        self._expect("]")
        return ListLiteral(position, elements, frozenset(optional))

    def _map(self, position: int) -> Node:
        entries: list[MapEntry] = []
        while self.next.kind not in ("}", ","):
            optional = self._accept("?")
            key = self.expression()
            self._expect(":")
            entries.append(MapEntry(key, self.expression(), optional))
            if self.next.kind != "," or self._tokens[self._index + 1].kind == "}":
                break
            self._take()
        self._accept(",")
        self._expect("}")
        return MapLiteral(position, entries)

    def _take(self) -> Token:
        token = self.next
        if token.kind != "end":
            self._index += 1
            self.next = self._tokens[self._index]
        return token

    def _accept(self, kind: str) -> bool:
        if self.next.kind != kind:
            return False
        self._take()
        return True

    def _expect(self, kind: str) -> None:
        token = self.next
        if not self._accept(kind):
            problem = f"Syntax error: mismatched input '{token.text}' expecting '{kind}'"
            raise SyntaxProblem(token.position, problem)


def _integer(token: Token, position: int, sign: int) -> Literal:
    assert isinstance(token.value, int)
    if token.value > INT_MAX + (sign < 0):
        raise SyntaxProblem(position, "invalid int literal")
    return Literal(position, sign * token.value)


def _too_deep(position: int) -> SyntaxProblem:
    return SyntaxProblem(position, f"expression recursion limit exceeded: {NESTING_MAX}")


def check_depth(root: Node) -> None:
    """A long chain, such as `1+1+1…`, is a deep tree though the parser did not have to recurse."""
    level, depth, nodes = [root], 0, 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > NESTING_MAX:
            raise _too_deep(level[0].position)
        if nodes > NODES_MAX:
            problem = f"expression has more than {NODES_MAX} parts once its macros are written out"
            raise SyntaxProblem(root.position, problem)
        level = [child for node in level for child in children(node)]
