"""The plugin manager: built-ins and strangers, registered and called the same way."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pluggy

from prompt_coevo import hookspecs
from prompt_coevo.errors import CoevoError, PluginError
from prompt_coevo.markers import PROJECT
from prompt_coevo.settings.sources import DISABLE_PLUGINS_VARIABLE

logger = logging.getLogger(PROJECT)


class Plugins:
    """Loads plugins and calls their hooks, each plugin on its own.

    A plugin that raises is reported through the log and `on_error(plugin name, hook, error)`, and
    passed over, so that it cannot stop a training run. Errors that prompt_coevo raises on purpose
    (CoevoError) pass through.
    """

    def __init__(self, on_error: Callable[[str, str, Exception], None] | None = None) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._on_error = on_error

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin. Raises PluginError if the name is taken or a hook does not fit its spec."""
        try:
            hash(plugin)  # pluggy needs it only later, at the first call of a hook
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except TypeError as error:
            raise PluginError(
                f"the plugin {name!r} cannot be registered: {error}; "
                "if it is a dataclass, make it @dataclass(eq=False)"
            ) from error
        except (ValueError, pluggy.PluginValidationError) as error:
            raise PluginError(f"the plugin {name!r} cannot be registered: {error}") from error

    def load_entry_points(self) -> None:
        """Add the installed third-party plugins, unless PROMPT_COEVO_DISABLE_PLUGINS is set."""
        if os.environ.get(DISABLE_PLUGINS_VARIABLE, "").lower() in ("1", "true", "yes", "all"):
            return
        for name in os.environ.get(DISABLE_PLUGINS_VARIABLE, "").split(","):
            if name.strip():
                self._manager.set_blocked(name.strip())
        try:
            self._manager.load_setuptools_entrypoints(PROJECT)
            self._manager.check_pending()
        except Exception as error:
            raise PluginError(
                f"an installed plugin cannot be loaded: {error}; "
                f"uninstall it, or switch it off with {DISABLE_PLUGINS_VARIABLE}=its-name"
            ) from error

    @property
    def names(self) -> list[str]:
        return [name for name, plugin in self._manager.list_name_plugin() if plugin is not None]

    def has(self, name: str) -> bool:
        return self._manager.has_plugin(name)

    def first(self, hook: str, *, strict: bool = False, **arguments: Any) -> Any:
        """The first result that is not None. A plugin that raises is passed over, unless `strict`."""
        calls = ((name, call()) for name, call in self._calls(hook, arguments))
        for _, result in calls if strict else self._results(hook, arguments):
            if result is not None:
                return result
        return None

    def each(self, hook: str, **arguments: Any) -> dict[str, Any]:
        """The results by plugin name, of all plugins that implement the hook and do not raise."""
        return dict(self._results(hook, arguments))

    def only(self, name: str, hook: str, **arguments: Any) -> Any:
        """The result of one plugin's hook, None if it does not implement it. Errors pass through."""
        for plugin_name, call in self._calls(hook, arguments):
            if plugin_name == name:
                return call()
        return None

    def _results(self, hook: str, arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, call in self._calls(hook, arguments):
            try:
                yield name, call()
            except CoevoError:
                raise
            except Exception as error:
                logger.exception("the plugin %r raised in %s", name, hook)
                if self._on_error is not None:
                    self._on_error(name, hook, error)

    def _calls(
        self, hook: str, arguments: dict[str, Any]
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        """One call per implementing plugin, in pluggy's order; hook wrappers wrap each of them."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        implementations = [
            implementation
            for implementation in reversed(caller.get_hookimpls())
            if not (implementation.wrapper or implementation.hookwrapper)
        ]
        plugins = [implementation.plugin for implementation in implementations]
        for implementation in implementations:
            others = [plugin for plugin in plugins if plugin is not implementation.plugin]
            one = self._manager.subset_hook_caller(hook, others)
            yield implementation.plugin_name, partial(_call_one, one, arguments)


def _call_one(caller: pluggy.HookCaller, arguments: dict[str, Any]) -> Any:
    result = caller(**arguments)
    if caller.spec is not None and caller.spec.opts.get("firstresult"):
        return result
    return result[0] if result else None
