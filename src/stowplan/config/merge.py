"""Which plugins run where: the two merges of a profile.

1. `merge_plugins`, at defaulting: the user's sets over the default ones, point by point.
2. `expand`, when a profile is built: multiPoint is spread over the points that each plugin
   implements, which gives the list of plugins per point, in the order they run.

Both are pure.  What a plugin implements is asked of the caller, so nothing is imported here.

Mirrors kube-scheduler's `apis/config/v1/default_plugins.go` (mergePluginSet),
`framework/runtime/framework.go` (NewFramework, expandMultiPointPlugins, getScoreWeights) and
`profile/profile.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from stowplan.config.field_error import did_you_mean
from stowplan.config.types import PluginRef, Plugins, PluginSet, Profile, SchedulerConfig
from stowplan.errors import ConfigError

POINTS: Mapping[str, str] = {
    "preFilter": "PreFilterPlugin",
    "filter": "FilterPlugin",
    "postFilter": "PostFilterPlugin",
    "reserve": "ReservePlugin",
    "preScore": "PreScorePlugin",
    "score": "ScorePlugin",
    "preBind": "PreBindPlugin",
    "bind": "BindPlugin",
    "postBind": "PostBindPlugin",
    "permit": "PermitPlugin",
    "preEnqueue": "PreEnqueuePlugin",
    "queueSort": "QueueSortPlugin",
    "placementGenerate": "PlacementGeneratePlugin",
    "placementScore": "PlacementScorePlugin",
}
"""Extension point -> the Go interface that error texts name; in the order they are visited."""

_WHERE_PLUGINS_ARE = "`stowplan plugins` lists them; `--plugin-path` brings in your own"

ALL = "*"
_NODE_SCORE_MAX = 100
_TOTAL_SCORE_MAX = 2**63 - 1
_WEIGHED = {"score": "score plugins", "placementScore": "placement score plugins"}
"""What has weights, as messages name it."""

Implements = Callable[[str], Collection[str]]
"""Plugin name -> the extension points it implements (`preFilter`, ...); KeyError if unknown."""


@dataclass(frozen=True, slots=True)
class ExpandedPlugins:
    """What runs in one profile."""

    scheduler_name: str
    points: Mapping[str, tuple[str, ...]]
    """Per extension point, every one of `POINTS`: the plugins in the order they run."""
    score_weights: Mapping[str, int]
    """Per plugin of `points["score"]`, never 0."""
    placement_score_weights: Mapping[str, int]
    instances: tuple[str, ...]
    """The plugins to make, once each: whatever is enabled anywhere, sorted."""

    def at(self, point: str) -> tuple[str, ...]:
        return self.points[point]


def merge_plugins(default: Plugins, custom: Plugins) -> Plugins:
    """Step 1: every point of `custom` over the same point of `default`."""
    return Plugins(
        **{
            field: merge_plugin_set(getattr(default, field), getattr(custom, field))
            for field in Plugins.__struct_fields__
        }
    )


def merge_plugin_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """The user's set over the default one.

    A default plugin that the user enables again is replaced where it stands, weight and all; the
    user's others follow.  Enabled beats disabled, so a plugin in both moves to the end.
    """
    disabled = {plugin.name for plugin in (*custom.disabled, *default.disabled)}
    # Of a name enabled twice the last one replaces; the others stay, and `expand` refuses them.
    last = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replaced: set[int] = set()
    enabled: list[PluginRef] = []
    for plugin in () if ALL in disabled else default.enabled:
        if plugin.name in disabled:
            continue
        index = last.get(plugin.name)
        if index is None:
            enabled.append(plugin)
        else:
            enabled.append(custom.enabled[index])
            replaced.add(index)
    enabled += [p for index, p in enumerate(custom.enabled) if index not in replaced]
    return PluginSet(
        enabled=enabled,
        disabled=[PluginRef(name=p.name) for p in (*custom.disabled, *default.disabled)],
    )


def expand(
    profile: Profile, implements: Implements, *, known: Collection[str] = ()
) -> ExpandedPlugins:
    """Step 2: the plugins of each extension point, in order.

    `known` are the names to suggest when one is misspelled.  A ConfigError is worded as
    kube-scheduler words the failure of its start.
    """
    build = _Build(profile, implements, known)
    for name, index in _repeated([entry.name for entry in profile.plugin_config]):
        raise build.error(f"repeated config for plugin {name}", where=f"pluginConfig[{index}]")
    for point in POINTS:
        build.check_explicit(point)
    points = {point: build.point(point) for point in POINTS}
    build.check_counts(points)
    return ExpandedPlugins(
        scheduler_name=profile.scheduler_name,
        points=points,
        score_weights=build.weights("score", points),
        placement_score_weights=build.weights("placementScore", points),
        instances=build.instances(),
    )


def expand_all(
    config: SchedulerConfig, implements: Implements, *, known: Collection[str] = ()
) -> dict[str, ExpandedPlugins]:
    """`expand` for every profile, by scheduler name; all must sort the queue alike."""
    expanded: dict[str, ExpandedPlugins] = {}
    first: tuple[str, object] | None = None
    for profile in config.profiles:
        plugins = expand(profile, implements, known=known)
        (sort,) = plugins.at("queueSort")
        args = profile.args(sort)
        if first is None:
            first = sort, args
        elif first[0] != sort:
            raise ConfigError(
                f"initializing profiles: different queue sort plugins for profile "
                f'"{profile.scheduler_name}": "{sort}", first: "{first[0]}"',
                hint="there is one queue for all profiles: enable the same plugin in each",
            )
        elif first[1] != args:
            raise ConfigError(
                f"initializing profiles: different queue sort plugin args for profile "
                f'"{profile.scheduler_name}"',
                hint="there is one queue for all profiles: give its plugin the same args in each",
            )
        expanded[profile.scheduler_name] = plugins
    return expanded


def profile_error(
    scheduler_name: str, problem: str, *, where: str = "", hint: str = ""
) -> ConfigError:
    """A failure to build the profile `scheduler_name`, in upstream's wrapping."""
    return ConfigError(
        f"initializing profiles: creating profile for scheduler name {scheduler_name}: {problem}",
        where=where,
        hint=hint,
    )


class _Build:
    """One profile being expanded."""

    def __init__(self, profile: Profile, implements: Implements, known: Collection[str]) -> None:
        self._profile = profile
        self._sets = dict(profile.plugins.sets())
        self._implements = implements
        self._known = known
        self._found: dict[str, Collection[str] | None] = {}

    def check_explicit(self, point: str) -> None:
        seen: set[str] = set()
        for index, plugin in enumerate(self._sets[point].enabled):
            name, where = plugin.name, f"plugins.{point}.enabled[{index}]"
            implemented = self._points_of(name, point, where)
            if point not in implemented:
                raise self.error(
                    f'plugin "{name}" does not extend {POINTS[point]} plugin',
                    where=where,
                    hint=f"it implements {', '.join(sorted(implemented)) or 'nothing'}",
                )
            if name in seen:
                raise self._already_registered(name, point, where)
            seen.add(name)

    def point(self, point: str) -> tuple[str, ...]:
        """Overrides first, then what only multiPoint has, then the rest of the explicit ones."""
        here = self._sets[point]
        explicit = [plugin.name for plugin in here.enabled]
        disabled = {plugin.name for plugin in here.disabled}
        if ALL in disabled:
            return tuple(explicit)
        overrides: set[str] = set()
        spread: list[str] = []
        # No index: it would count the default plugins, which are not in the user's file.
        where = "plugins.multiPoint.enabled"
        for plugin in self._sets["multiPoint"].enabled:
            name = plugin.name
            implemented = self._points_of(name, point, where)
            if point not in implemented or name in disabled:
                continue
            if name in explicit:
                overrides.add(name)
            elif name in spread:
                raise self._already_registered(name, point, where)
            else:
                spread.append(name)
        front = [name for name in explicit if name in overrides]
        back = [name for name in explicit if name not in overrides]
        return (*front, *spread, *back)

    def check_counts(self, points: Mapping[str, tuple[str, ...]]) -> None:
        profile = f'profile with scheduler name "{self._profile.scheduler_name}"'
        if (count := len(points["queueSort"])) != 1:
            raise self.error(f"only one queue sort plugin required for {profile}, but got {count}")
        if not points["bind"]:
            raise self.error(f"at least one bind plugin is needed for {profile}")
        if len(points["placementGenerate"]) > 1:
            raise self.error(f"at most one placement generate plugin is allowed for {profile}")

    def weights(self, point: str, points: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
        """The explicit weight, else multiPoint's; 0 is 1."""
        weights: dict[str, int] = {}
        total = 0
        for plugin in (*self._sets[point].enabled, *self._sets["multiPoint"].enabled):
            if plugin.name in weights or point not in (self._look_up(plugin.name) or ()):
                continue
            weights[plugin.name] = plugin.weight or 1
            score = weights[plugin.name] * _NODE_SCORE_MAX
            # Below zero upstream's own sum overflows, so what follows a negative weight is refused.
            if total < 0 or score > _TOTAL_SCORE_MAX - total:
                raise self.error(f"{_WEIGHED[point]}: total score of Score plugins could overflow")
            total += score
        return {name: weights[name] for name in points[point]}

    def instances(self) -> tuple[str, ...]:
        names = sorted(self._profile.plugins.enabled_names())
        return tuple(name for name in names if self._look_up(name) is not None)

    def error(self, problem: str, *, where: str = "", hint: str = "") -> ConfigError:
        return profile_error(self._profile.scheduler_name, problem, where=where, hint=hint)

    def _look_up(self, name: str) -> Collection[str] | None:
        """What `name` implements; None if there is no such plugin."""
        if name not in self._found:
            try:
                self._found[name] = self._implements(name)
            except KeyError:
                self._found[name] = None
        return self._found[name]

    def _points_of(self, name: str, point: str, where: str) -> Collection[str]:
        """What `name` implements."""
        points = self._look_up(name)
        if points is not None:
            return points
        raise self.error(
            f'{POINTS[point]} "{name}" does not exist',
            where=where,
            hint=did_you_mean(name, self._known) or _WHERE_PLUGINS_ARE,
        )

    def _already_registered(self, name: str, point: str, where: str) -> ConfigError:
        return self.error(
            f'plugin "{name}" already registered as "{POINTS[point]}"',
            where=where,
            hint=f"enable {name} once",
        )


def _repeated(names: list[str]) -> list[tuple[str, int]]:
    return [(name, index) for index, name in enumerate(names) if name in names[:index]]
