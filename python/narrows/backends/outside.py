"""The parts from outside of a run: queues and congestion controls of your own, and plugins."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.backends.backend import BackendError
from narrows.controls import Control, ControlError
from narrows.errors import HintedError
from narrows.part import Part
from narrows.queues import Queue, QueueError
from narrows.scenario.tcp import CONTROLS, own_controls

if TYPE_CHECKING:
    from narrows.scenario import Scenario

_MOST_NAMED = 8
"""The most links that a message names."""
_PATIENCE_S = 0.8
"""How long compiled code may take to return after Ctrl-C."""


@dataclass(frozen=True)
class Outside:
    """The parts from outside of a run."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    """Queues by links and directions, such as `bottleneck.forward`, or by the names that queues of
    the kind `plugin` have in scenarios."""
    controls: Mapping[str, Control] = field(default_factory=dict)
    """Congestion controls by the names that `tcp.congestion` has."""
    plugins: Sequence[Path] = ()
    """Shared objects whose queues and congestion controls scenarios may name."""
    valued: frozenset[str] = frozenset()
    """The names of queues that are values of a scenario's keys, and have their numbers there."""
    recorded: Mapping[str, Any] | None = None
    """What run.json says, if these parts have come from another process."""
    _back: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        queues: Mapping[str, Any] | None = None,
        controls: Mapping[str, Any] | None = None,
        plugins: Sequence[str | Path] | None = None,
    ) -> Outside:
        """Reads the arguments of `narrows.run`.

        Raises:
            QueueError: Something is no queue.
            ControlError: Something is no congestion control, or has the name of one of narrows'.
        """
        hint = 'a link and its direction ("bottleneck.forward"), or the name of a queue'
        _refuse_names("queues", queues, hint, QueueError)
        _refuse_names("controls", controls, "what tcp.congestion has", ControlError)
        for place, queue in (queues or {}).items():
            _refuse_others(f"queues[{place!r}]", queue, Queue, "queue", QueueError)
        for name, control in (controls or {}).items():
            place = f"controls[{name!r}]"
            _refuse_others(place, control, Control, "congestion control", ControlError)
            if name in CONTROLS:
                raise ControlError(place, "is the name of one of narrows' own", "choose another")
        return cls(dict(queues or {}), dict(controls or {}), [Path(path) for path in plugins or ()])

    @cached_property
    def offered(self) -> frozenset[str]:
        """The names of the congestion controls. This loads the plugins: their code runs.

        Raises:
            BackendError: A plugin cannot be loaded.
        """
        theirs = (names for _, names in self._offers.values())
        return frozenset(self.controls).union(*theirs)

    @cached_property
    def _offers(self) -> Mapping[Path, tuple[list[str], list[str]]]:
        """The queues and the congestion controls of each plugin."""
        try:
            return {path: _core.plugin_offers(path) for path in self.plugins}
        except ValueError as error:
            raise BackendError("plugins", str(error)) from None

    def engine(self, plan: str) -> _core.Simulation:
        """A simulation of a plan with these parts."""
        queues: dict[str, Callable[[int, dict[str, float | str]], object]] = {
            place: queue.again for place, queue in self.queues.items()
        }
        controls: dict[str, Callable[[int], object]] = {
            name: control.again for name, control in self.controls.items()
        }
        return _core.Simulation(plan, [str(path) for path in self.plugins], queues, controls)

    def wrong(self, plan: Mapping[str, Any]) -> list[str]:
        """Why a run of a plan with these parts would be refused; empty if it would start."""
        text = json.dumps(plan)
        try:
            self.engine(text)
        except ValueError as error:
            return [str(error)]
        return []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Ends the process a second after Ctrl-C if compiled code does not return until then.

        Python cannot interrupt compiled code, and a run in it has no results that could be kept.
        """
        parts = [*self.queues.values(), *self.controls.values()]
        native = self.plugins or any(hasattr(part, "addresses") for part in parts)
        if not native or threading.current_thread() is not threading.main_thread():
            yield
            return
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(ours,), daemon=True).start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            theirs.close()

    def _watch(self, wakes: socket.socket) -> None:
        with wakes:
            while wakes.recv(1):
                self._back.clear()
                if not self._back.wait(_PATIENCE_S):
                    os.write(2, b"error: compiled code does not return; the run is lost\n")
                    os._exit(130)

    def returned(self) -> None:
        """Says that compiled code has returned."""
        self._back.set()

    def refuse_unused(self, scenario: Scenario) -> None:
        """Refuses parts that a scenario does not use. This loads the plugins: their code runs.

        Raises:
            ControlError: There is such a control.
            QueueError: There is such a queue.
            BackendError: There is such a plugin, or one cannot be loaded.
        """
        self.refuse_unused_queues(scenario, self.used_queues(scenario))
        named = {name for _, name in own_controls(scenario)}
        for name in self.controls.keys() - named:
            raise ControlError(
                f"controls[{name!r}]", "no connection uses it", f'tcp.congestion = "{name}"'
            )
        if not self.plugins:
            return
        queues = self.used_queues(scenario)
        for path, (offered_queues, offered_controls) in self._offers.items():
            if queues.isdisjoint(offered_queues) and named.isdisjoint(offered_controls):
                hints = [f'queue = {{ kind = "plugin", name = "{n}" }}' for n in offered_queues]
                hints += [f'tcp.congestion = "{n}"' for n in offered_controls]
                raise BackendError(
                    str(path), "the scenario uses nothing of it", " or ".join(hints[:2])
                )

    def used_queues(self, scenario: Scenario) -> set[str]:
        """The places of a scenario's queues, and the names of those of the kind `plugin`."""
        return {*_places(scenario), *_plugin_queues(scenario.resolved()["links"])}

    def named_queues(self, scenario: Scenario) -> set[str]:
        """The names of queues that are no links: the scenario has them."""
        return self.queues.keys() - set(_places(scenario))

    def refuse_unused_queues(self, scenario: Scenario, used: Set[str]) -> None:
        """Refuses a queue that is not among these; the scenario is an example.

        Raises:
            QueueError: There is one.
        """
        links = _places(scenario)
        for place in self.queues:
            if place not in used and place in self.valued:
                what = "no run uses this queue, because other values replace it"
                raise QueueError(place, what, "remove it")
            if place not in used:
                more = ", ..." if len(links) > _MOST_NAMED else ""
                raise QueueError(
                    f"queues[{place!r}]",
                    f'there is no link "{place}", and no queue of the kind plugin has this name',
                    f"one of {', '.join(links[:_MOST_NAMED])}{more}",
                )

    def sent(self) -> dict[str, Any]:
        """These parts for another process, as JSON values: classes by value, plugins by path.

        Raises:
            BackendError: A part cannot be sent.
        """
        named: dict[str, Part] = {f"queues[{place!r}]": q for place, q in self.queues.items()}
        named |= {f"controls[{name!r}]": control for name, control in self.controls.items()}
        for place, part in named.items():
            if hasattr(part, "addresses"):
                raise BackendError(
                    place, "has compiled functions, which stay in this process", "make it a plugin"
                )
        parts = [
            {place: part.travels() for place, part in parts.items()}
            for parts in (self.queues, self.controls)
        ]
        record = self.record
        return {
            "python": list(sys.version_info[:2]),
            "parts": base64.b85encode(_dumps(parts, named)).decode(),
            "plugins": [
                {"path": str(path.absolute()), "sha256": each["sha256"]}
                for path, each in zip(self.plugins, record["plugins"], strict=True)
            ],
            "record": record,
        }

    @classmethod
    def received(cls, sent: Mapping[str, Any]) -> Outside:
        """The parts that another process has `sent`.

        Raises:
            BackendError: They cannot be used here.
        """
        plugins = []
        for plugin in sent["plugins"]:
            path = Path(plugin["path"])
            if not path.is_file() or _digest(path) != plugin["sha256"]:
                what = "is another file here" if path.is_file() else "does not exist here"
                raise BackendError(str(path), what, "use a folder that all machines share")
            plugins.append(path)
        if sent["python"] != list(sys.version_info[:2]):
            theirs, ours = (".".join(map(str, v)) for v in (sent["python"], sys.version_info[:2]))
            raise BackendError("", f"has Python {ours}, but the classes are of {theirs}")
        try:
            queues, controls = pickle.loads(base64.b85decode(sent["parts"]))
        except Exception as error:
            raise BackendError("", f"cannot load the classes: {error}") from None
        made, also = (
            {place: kind(*given, **named) for place, (kind, (given, named)) in parts.items()}
            for parts in (queues, controls)
        )
        return cls(made, also, plugins, recorded=sent["record"])

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """What run.json says about them."""
        if self.recorded is not None:
            return self.recorded
        return {
            "queues": {
                place: queue.record()
                | ({"arguments": queue.others()} if place in self.valued else {})
                for place, queue in self.queues.items()
            },
            "controls": {name: control.record() for name, control in self.controls.items()},
            "plugins": [{"file": path.name, "sha256": _digest(path)} for path in self.plugins],
        }


def _places(scenario: Scenario) -> list[str]:
    return [f"{link.name}.{each}" for link in scenario.links for each in ("forward", "backward")]


def _plugin_queues(value: Any) -> Iterator[str]:
    """The names of plugins' queues among a scenario's values."""
    if isinstance(value, dict):
        if value.get("kind") == "plugin":
            yield str(value.get("name"))
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _plugin_queues(each)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BackendError(str(path), (error.strerror or str(error)).lower()) from None


def _dumps(parts: Any, named: Mapping[str, Part]) -> bytes:
    """Pickles parts, with cloudpickle if it is there.

    Only cloudpickle sends classes of notebooks, and of files that the other process cannot import.
    Dask needs it, too; the standard library has nothing like it, and a class's source alone lacks
    what it uses from around it.
    """
    if importlib.util.find_spec("cloudpickle") is None:
        for place, part in named.items():
            if type(part).__module__ == "__main__" or "<locals>" in type(part).__qualname__:
                raise BackendError(
                    place, "is a class of this program alone", "pip install cloudpickle"
                )
        dumps: Callable[[Any], bytes] = pickle.dumps
        modules = []
    else:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]

        dumps = cloudpickle.dumps
        modules = [sys.modules[type(part).__module__] for part in named.values()]
        modules = [module for module in dict.fromkeys(modules) if _is_users(module)]
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
    try:
        return dumps(parts)
    except Exception as error:
        what = f"cannot be sent to other processes: {type(error).__name__}: {error}"
        raise BackendError(", ".join(named), what) from None
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _is_users(module: ModuleType) -> bool:
    """Whether a module is neither installed nor that of a program, which is always sent."""
    path = getattr(module, "__file__", None)
    return module.__name__ != "__main__" and path is not None and "site-packages" not in path


def _refuse_names(what: str, given: Any, hint: str, error: type[HintedError]) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise error(what, f"is no mapping but {type(given).__name__}", f"its keys: {hint}")
    for name in given or ():
        if not isinstance(name, str):
            raise error(f"{what}[{name!r}]", "is not named by text", hint)


def _refuse_others(
    place: str, given: Any, wanted: type[Part], what: str, error: type[HintedError]
) -> None:
    if isinstance(given, type) and issubclass(given, wanted):
        raise error(place, "is a class", f"make one: {given.__name__}()")
    if not isinstance(given, wanted):
        base = f"{wanted.__module__}.{wanted.__name__}"
        raise error(place, f"is no {what}", f"subclass {base}")
