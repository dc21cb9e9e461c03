"""The mutants of a Python file: each changes one operator, condition, number, call or result.

The operators are those of cosmic-ray 8.7 that change what a program computes, and a shift of each
number: of an integer by one, of any other by 5 %, both ways. Words stay: texts, messages of errors
and assertions, annotations and decorators.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator


def mutated(source: str) -> Iterator[tuple[str, str]]:
    """The function that each mutant changes, and the mutant's source."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    whole = b"".join(lines)
    for where, node, new in _changes(ast.parse(source), ""):
        assert node.end_lineno is not None and node.end_col_offset is not None, "it was parsed"
        low = starts[node.lineno - 1] + node.col_offset
        high = starts[node.end_lineno - 1] + node.end_col_offset
        text = f"({new})" if isinstance(node, ast.expr) else new
        yield where, (whole[:low] + text.encode() + whole[high:]).decode()


Located = ast.expr | ast.stmt


def _changes(node: ast.AST, where: str) -> Iterator[tuple[str, Located, str]]:
    """Each part of a tree that a mutant replaces, with its function and the text instead."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        where = f"{where}.{node.name}".lstrip(".")
    for old, new in _instead(node):
        yield where, old, ast.unparse(new)
    for name, value in ast.iter_fields(node):
        if name in _WORDS.get(type(node), ()):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_untouched(child):
                yield from _changes(child, where)


def _is_untouched(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Assert() | ast.keyword(arg="strict" | "repr"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


_WORDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.FunctionDef: ("decorator_list", "returns"),
    ast.ClassDef: ("decorator_list", "bases"),
    ast.arg: ("annotation",),
    ast.AnnAssign: ("annotation",),
}
"""Fields that do not change what a program computes."""

_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}

_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _instead(node: ast.AST) -> Iterator[tuple[Located, ast.AST]]:
    """What a mutant of a node replaces, and with what."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.For(iter=values):
            yield values, ast.Tuple([])
        case ast.comprehension(iter=values, ifs=tests):
            yield values, ast.Tuple([])
            yield from ((test, ast.UnaryOp(ast.Not(), test)) for test in tests)
        case ast.expr() | ast.stmt():
            yield from ((node, new) for new in _others(node))


def _others(node: Located) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _BINARY:
            yield _with(node, op=_BINARY[type(op)]())
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                for other in _COMPARED[type(op)]:
                    yield _with(node, ops=[*ops[:place], other(), *ops[place + 1 :]])
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            yield _with(node, func=ast.Name(_CALLED[name]))
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 1.05 or 0.05)
            yield ast.Constant(value * 0.95 or -0.05)
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of a node with other fields."""
    found = copy.copy(node)
    for name, value in fields.items():
        setattr(found, name, value)
    return found
