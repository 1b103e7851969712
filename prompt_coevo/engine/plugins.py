"""The plugin manager. Built-in and third-party plugins are registered and called the same way."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Final, ParamSpec, TypeVar

import pluggy

from prompt_coevo import hookspecs
from prompt_coevo.errors import CoevoError, PluginError
from prompt_coevo.markers import INTERFACE, PROJECT, check_interface
from prompt_coevo.redact import redact
from prompt_coevo.registry import DISABLE_PLUGINS_VARIABLE, installed

logger = logging.getLogger(PROJECT)

P = ParamSpec("P")
R = TypeVar("R")
Report = Callable[[str, str, Exception], None]

# An error in a gate is raised to the caller, which rejects the candidate.
_RAISES: Final = frozenset({"coevo_check_candidate"})


class Plugins:
    """Load plugins and call their hooks in pluggy's order: the last one registered is called first.

    A hook is named by its specification, `plugins.first(hookspecs.coevo_propose, requests=...)`, so
    that a type checker knows its arguments and its result. An exception in a plugin is logged without
    keys (`redact`, with the `secrets`), passed to `on_error(plugin name, hook, error)`, and then ignored,
    so that it cannot stop a training run. CoevoError, which prompt_coevo raises on purpose, passes through.
    """

    def __init__(self, on_error: Report | None = None, *, secrets: Sequence[str] = ()) -> None:
        self._manager = _Manager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._on_error = on_error
        self._secrets = tuple(secrets)
        self._given: dict[str, object] = {}

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin.

        Raise PluginError if the name is taken, the same object was added before, a hook does not fit
        its specification, or the plugin needs a newer interface.
        """
        if name in self._given:
            raise PluginError(
                f"the plugin {name!r} cannot be registered: the name is taken by a "
                f"{type(self._given[name]).__name__}; give it another one"
            )
        if any(plugin is other for other in self._given.values()):
            raise PluginError(
                f"the plugin {name!r} cannot be registered: the same object has another name already; "
                "register it once"
            )
        check_interface(f"the plugin {name!r}", getattr(plugin, "coevo_interface", INTERFACE))
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except (TypeError, ValueError, pluggy.PluginValidationError) as error:
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            raise PluginError(f"the plugin {name!r} cannot be registered: {error}") from error
        self._given[name] = plugin

    def load_entry_points(self) -> None:
        """Add the installed third-party plugins, except those in PROMPT_COEVO_DISABLE_PLUGINS."""
        for entry in installed(PROJECT):
            self.load(entry)

    def load(self, entry: EntryPoint) -> None:
        """Add an installed plugin. Raise PluginError."""
        self.register(_loaded(entry), entry.name)

    @property
    def names(self) -> list[str]:
        return list(self._given)

    def first(self, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return the first result that is not None, of a hook with one provider."""
        return next((result for _, result in self._answers(hook, kwargs)), None)

    def each(self, hook: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all plugins that implement the hook."""
        for _ in self._answers(hook, kwargs):
            pass

    def by_plugin(
        self, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs
    ) -> dict[str, R]:
        """Return results that are not None by plugin name, in calling order. Skip plugins that raise."""
        return dict(self._answers(hook, kwargs))

    def only(
        self, name: str, hook: Callable[P, R | None], *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        """Call the hook of one plugin; return None if it does not implement it. Errors pass through."""
        for one in self._implementations(hook):
            if one.plugin_name == name:
                function: Any = one.function
                result: R | None = function(**{name: kwargs[name] for name in one.argnames})
                return result
        return None

    def implements(self, name: str, hook: Callable[..., object]) -> bool:
        """Check whether the plugin with this name implements the hook."""
        return any(one.plugin_name == name for one in self._implementations(hook))

    def report(self, plugin: str, hook: str, error: Exception) -> None:
        """Log an exception in a plugin and pass it to `on_error`."""
        # Not as exc_info: logging would format the error itself, without redacting keys.
        told = "".join(traceback.format_exception(error)).rstrip()
        logger.error("the plugin %r raised in %s:\n%s", plugin, hook, redact(told, *self._secrets))
        if self._on_error is not None:
            self._on_error(plugin, hook, error)

    def _implementations(self, hook: Callable[..., object]) -> list[pluggy.HookImpl]:
        """Return the implementations in calling order."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook.__name__)
        return caller.get_hookimpls()[::-1]

    def _answers(
        self, hook: Callable[..., object], arguments: Mapping[str, object]
    ) -> Iterator[tuple[str, Any]]:
        """Call the plugins lazily, one after the other, and yield results that are not None."""
        for one in self._implementations(hook):
            wanted = {name: arguments[name] for name in one.argnames}
            try:
                result = one.function(**wanted)
            except CoevoError:
                raise
            except Exception as error:
                if hook.__name__ in _RAISES:
                    raise
                self.report(one.plugin_name, hook.__name__, error)
            else:
                if result is not None:
                    yield one.plugin_name, result


class _Manager(pluggy.PluginManager):
    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Find a plugin's hook. Raise TypeError for a wrapper."""
        if isinstance(inspect.getattr_static(plugin, name, None), property):
            return None  # older versions of pluggy would evaluate it
        options = super().parse_hookimpl_opts(plugin, name)
        if options and (options.get("wrapper") or options.get("hookwrapper")):
            raise TypeError(f"{name} is a hook wrapper, which is not supported; make it a hook")
        return options


def _loaded(entry: EntryPoint) -> object:
    try:
        plugin: object = entry.load()
    except Exception as error:
        raise PluginError(
            f"the installed plugin {entry.name!r} cannot be loaded: {error}; "
            f"uninstall it, or switch it off with {DISABLE_PLUGINS_VARIABLE}={entry.name}"
        ) from error
    return plugin
