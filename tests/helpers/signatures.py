"""Compare a stand-in's signature with the real one's."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Any

_ANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def misfits(ours: Callable[..., Any], theirs: Callable[..., Any]) -> list[str]:
    """Return what a call may pass to the stand-in but not to the real one, or must pass only to the real
    one.

    Both are functions with `self`, or both without. The stand-in may have fewer parameters, but no others;
    positional ones have the same place, and defaults are equal. It may require an argument for which the
    real one has a default.
    """
    found = []
    if _kind(ours) != _kind(theirs):
        found.append(f"{_kind(ours)}, and the real one {_kind(theirs)}")
    mine, real = (dict(inspect.signature(one).parameters) for one in (ours, theirs))
    places = {name: place for place, name in enumerate(real)}
    for place, (name, parameter) in enumerate(mine.items()):
        if parameter.kind in _ANY:
            continue
        if name not in real or real[name].kind in _ANY:
            found.append(f"{name}: the real one has no such parameter")
            continue
        if parameter.kind in _BY_PLACE and (
            real[name].kind not in _BY_PLACE or places[name] != place
        ):
            found.append(f"{name}: another place")
        default = parameter.default
        if default is not Parameter.empty and default != real[name].default:
            found.append(f"{name}: {default!r} by default, and there {real[name].default!r}")
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in mine.values())
    for name, parameter in real.items():
        needed = parameter.default is Parameter.empty and parameter.kind not in _ANY
        if needed and name not in mine and not takes_any:
            found.append(f"{name}: the real one needs it")
    return found


def _kind(function: Callable[..., Any]) -> str:
    if inspect.isasyncgenfunction(function):
        return "an asynchronous generator"
    return "a coroutine" if inspect.iscoroutinefunction(function) else "a function"


def read_function(path: Path, class_name: str, name: str) -> Callable[..., Any]:
    """Read a method's signature from a file, without its body: for modules that cannot be imported here."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            is_method = isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            if node.name == class_name and is_method and method.name == name:
                return _without_body(method)
    raise LookupError(f"{path} has no {class_name}.{name}")


def _without_body(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Callable[..., Any]:
    """Drop the body but keep a yield, so that a generator stays one."""
    yields = any(isinstance(node, ast.Yield) for node in ast.walk(method))
    parameters = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
    for parameter in (*parameters, method.args.vararg, method.args.kwarg):
        if parameter is not None:
            parameter.annotation = None
    method.decorator_list, method.returns = [], None
    method.body = ast.parse("yield" if yields else "pass").body
    scope: dict[str, Any] = {}
    tree = ast.fix_missing_locations(ast.Module([method], []))
    exec(compile(tree, "<signature>", "exec"), scope)
    function: Callable[..., Any] = scope[method.name]
    return function
