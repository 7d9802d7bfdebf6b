"""What the documents say is true: files exist, links work, commands parse, examples run."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from random import Random

import click
import msgspec
import pytest
import yaml

from examples.plugins.cheap_nodes import CheapNodes
from examples.plugins.team_nodes import TeamNodes
from stowplan.cli import COMMANDS, main
from stowplan.config import load_config, types
from stowplan.config.types import ARGS_BY_PLUGIN
from stowplan.core.profiles import check_config
from stowplan.plugins import IN_TREE
from stowplan.runtime import metric_table
from tests.house.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    Run,
    anchors,
    blocks,
    commands_of,
    inline_codes,
    links,
    runs,
)

SRC = ROOT / "src" / "stowplan"
BIN = Path(sys.executable).parent

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)


# -- names ----------------------------------------------------------------------------------


@every_document
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{document.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{document.name}: {link}"


_FILE = re.compile(r"[\w./-]+\.(?:py|md|yaml|toml|json|txt)|(?:[\w-]+/)+")


@every_document
def test_files_that_are_named_exist(document: Path) -> None:
    """A name is looked for in the repository, in the package, and beside the document."""
    for code in inline_codes(document):
        # Names of the reader's own files stand in commands, or without a folder.
        if _FILE.fullmatch(code) and "/" in code.rstrip("/") and not code.startswith("/"):
            places = (ROOT / code, SRC / code, document.parent / code)
            assert any(place.exists() for place in places), f"{document.name}: `{code}`"


def test_every_document_can_be_reached_from_the_readme() -> None:
    readme = ROOT / "README.md"
    reached = {(ROOT / link.partition("#")[0]).resolve() for link in links(readme)}

    assert {document for document in DOCUMENTS if document != readme} - reached == {
        ROOT / "CHANGELOG.md"
    }


def test_the_table_of_rooms_has_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## The rooms")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)

    rooms = {path.parent.name for path in SRC.glob("*/__init__.py")}
    modules = {path.name for path in SRC.glob("*.py") if not path.name.startswith("_")}
    assert set(named) == rooms | modules
    assert len(named) == len(set(named))


def test_a_reader_can_name_the_file_in_which_a_node_is_chosen() -> None:
    for name in ("README.md", "ARCHITECTURE.md"):
        assert "core/algorithm.py" in (ROOT / name).read_text()


# -- commands -------------------------------------------------------------------------------


@pytest.mark.parametrize(("where", "arguments"), commands_of("stowplan"))
def test_commands_parse(where: str, arguments: str) -> None:
    name, *rest = shlex.split(arguments)
    if name.startswith("-") or name.isupper():
        assert name in {"COMMAND", *(o for p in main.params for o in p.opts), "--help"}
        return
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"there is no `stowplan {name}`"
    if isinstance(command, click.Group) and rest:
        name, *rest = rest
        command = command.get_command(click.Context(command), name)
        assert command is not None, f"there is no `stowplan … {name}`"
    _parse(command, [word for word in rest if word != "…"])


def _parse(command: click.Command, words: list[str]) -> None:
    # With the names that help has everywhere: a command remembers those it is asked with first.
    context = click.Context(command, **main.context_settings)
    valued = [p for p in command.params if not getattr(p, "is_flag", False)]
    if words and words[-1] in {option for p in valued for option in p.opts}:
        words = [*words, "VALUE"]  # An option may be mentioned without its value.
    values, extra, _ = command.make_parser(context).parse_args(list(words))
    assert not extra
    for param in command.params:
        value = values.get(param.name or "")
        if isinstance(param.type, click.Choice) and value not in (None, "VALUE"):
            param.type_cast_value(context, value)


def test_a_wrong_option_would_be_noticed() -> None:
    command = main.get_command(click.Context(main), "dry-run")
    assert command is not None

    for words in (["--file", "a"], ["-o", "toml"]):
        with pytest.raises(click.UsageError):
            _parse(command, words)


def test_every_command_stands_in_a_document() -> None:
    mentioned = {arguments.split()[0] for _, arguments in commands_of("stowplan")}

    assert set(COMMANDS) <= mentioned


def test_verbs_of_make_exist() -> None:
    verbs = set(re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = {
        word
        for _, arguments in commands_of("make")
        for word in shlex.split(arguments)
        if "=" not in word
    }

    assert mentioned <= verbs | {"VERB"}


REPEATABLE = (
    "python examples/",
    "stowplan compare",
    "stowplan dry-run -f examples/",
    "stowplan plan",
    "stowplan plugins",
    "stowplan snapshot",
    "stowplan trace inspect openb",
    "stowplan what-if",
    "stowplan why",
)


def repeatable_runs() -> list[Run]:
    return [run for run in runs() if run.command.startswith(REPEATABLE)]


@pytest.mark.slow
@pytest.mark.parametrize("run", repeatable_runs(), ids=str)
def test_output_is_what_the_document_shows(run: Run) -> None:
    printed = "".join(map(_printed, run.command.split(" && ")))

    assert _shows(run.output, printed), f"{run}\n{printed}"


def _printed(command: str) -> str:
    program, *arguments = shlex.split(command)
    path = BIN / program if program == "stowplan" else Path(sys.executable)
    done = subprocess.run(
        [path, *arguments],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout


def _shows(shown: str, printed: str) -> bool:
    """`…` on a line of its own stands for lines left out."""
    parts = re.split(r"^…\n", shown, flags=re.MULTILINE)
    pattern = "(?:.*\n)*".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, printed) is not None


def test_lines_may_be_left_out_but_not_changed() -> None:
    assert _shows("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not _shows("a\n…\nd\n", "a\nb\nc\n")
    assert not _shows("a\nc\n", "a\nb\n")


# -- examples -------------------------------------------------------------------------------


def _is_excerpt(text: str) -> bool:
    """Whether all of it stands in one example.

    Methods are shown without their class, and formatted as they then fit: the meaning counts.
    """
    wanted = {ast.dump(statement) for statement in ast.parse(text).body}
    return any(
        wanted <= {ast.dump(node) for node in ast.walk(ast.parse(path.read_text()))}
        for path in (ROOT / "examples").rglob("*.py")
    )


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_is_part_of_an_example_or_runs(block: Block) -> None:
    if _is_excerpt(block.text):
        return
    assert block.document.name != "plugins.md", "not what stands in examples/plugins any more"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.text, str(block), "exec"), {"__name__": "__main__"})
    # What a last comment says is printed.
    *_, last = block.text.splitlines()
    if last.startswith("# "):
        assert printed.getvalue().splitlines()[-1] == last.removeprefix("# ")


def config_blocks() -> list[Block]:
    return [block for block in blocks("yaml") if f"kind: {types.KIND}" in block.text]


@pytest.mark.parametrize("block", config_blocks(), ids=str)
def test_configurations_can_be_used(block: Block) -> None:
    config = load_config(block.text.encode(), where=str(block))

    registry = {**IN_TREE, "TeamNodes": TeamNodes, "CheapNodes": CheapNodes}
    check_config(config, random=Random(0), registry=registry)


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_yaml(block: Block) -> None:
    assert all(isinstance(data, dict) for data in yaml.safe_load_all(block.text))


# -- lists that must be complete ------------------------------------------------------------


def _fields(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_every_field_of_the_configuration_is_documented() -> None:
    structs = [
        types.SchedulerConfig,
        types.Profile,
        types.LeaderElection,
        types.ClientConnection,
        types.ExtenderConfig,
        types.ExtenderTLSConfig,
        types.ExtenderManagedResource,
        types.Plugins,
        types.ScoringStrategy,
        types.UtilizationShapePoint,
        *ARGS_BY_PLUGIN.values(),
    ]
    wanted = set().union(*map(_fields, structs))
    codes = inline_codes(ROOT / "docs" / "configuration.md")
    named = {part for code in codes for part in re.split(r"[.\[\]]", code)}

    assert wanted - named == set()


def test_every_metric_is_documented_and_exists() -> None:
    others = (
        metric_table.RESOURCE_REQUEST,
        metric_table.RESOURCE_LIMIT,
        metric_table.HEALTH_CHECK,
        metric_table.HEALTH_CHECKS,
    )
    exported = {spec.name for spec in (*metric_table.SPECS, *others)}
    codes = inline_codes(ROOT / "docs" / "operations.md")
    prefixes = ("scheduler_", "stowplan_", "leader_election_", "rest_client_", "kube_pod_")
    named = {code.partition("{")[0] for code in codes}

    assert exported - named == set()
    assert {name for name in named if name.startswith(prefixes)} - exported == set()


def test_the_rights_are_those_of_the_manifests() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.partition("## Rights")[2].partition("\n## ")[0]
    _, *rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", section, re.MULTILINE)
    documented = {
        ("" if group == "core" else group, resource, verb)
        for group, resources, verbs in rows
        for resource in resources.split(", ")
        for verb in verbs.split(", ")
    }
    roles = yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text())
    granted = {
        (group, resource, verb)
        for role in roles
        for rule in role.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert documented == granted


def test_the_dependencies_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs" / "dependencies.md").read_text()
    at_run_time = text.partition("## At run time")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+) \|", at_run_time, re.MULTILINE)

    assert {_plain(row) for row in rows} - {"package"} == {
        _plain(requirement) for requirement in project["dependencies"]
    }


def test_every_dependency_is_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = "\n".join(path.read_text() for path in SRC.rglob("*.py"))
    modules = {"pyyaml": "yaml", "google-re2": "re2"}

    for name in map(_plain, project["dependencies"]):
        pattern = rf"^\s*(?:import|from) {modules.get(name, name)}\b"
        assert re.search(pattern, sources, re.MULTILINE), f"nothing imports {name}"


def test_the_tools_are_those_of_development() -> None:
    requirements = (ROOT / "requirements" / "dev.in").read_text().splitlines()
    names = {_plain(line) for line in requirements if re.match(r"\w", line)}
    text = (ROOT / "docs" / "dependencies.md").read_text()
    section = text.partition("## For development")[2].partition("\n## ")[0]

    assert {name for name in names if name not in section.lower()} == set()


def _plain(requirement: str) -> str:
    """
    >>> _plain("prometheus_client>=0.21,<1")
    'prometheus-client'
    """
    return re.split(r"[^\w-]", requirement)[0].lower().replace("_", "-")
