"""Where the cluster is and who we are: which file counts, and what is wrong with it."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.cluster.kubeconfig import Connection, from_files, in_cluster, load_connection
from stowplan.errors import InputError


def config(
    server: str = "https://one:6443", *, name: str = "one", cluster: Any = None, user: Any = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": f"{name}-user", "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-user"}}],
        "current-context": name,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(path: Path, data: Any) -> str:
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return str(path)


def load(folder: Path, data: Any, context: str = "") -> Connection:
    return from_files([write(folder / "config", data)], context)


# -- which one --------------------------------------------------------------------------------


def test_the_file_named_wins_over_the_environment(folder: Path) -> None:
    named = write(folder / "a", config("https://named"))
    other = write(folder / "b", config("https://other"))

    found = load_connection(
        named, environment={"KUBECONFIG": other, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    )

    assert found.server == "https://named"


def test_several_files_are_read_as_one_and_the_first_to_say_something_wins(folder: Path) -> None:
    first = config("https://first")
    second = {**config("https://second"), "current-context": "two"}
    two = config("https://two", name="two", user={"token": "t2"})
    for key in ("clusters", "users", "contexts"):
        second[key] = second[key] + two[key]
    paths = [write(folder / "1", first), write(folder / "2", second), str(folder / "missing")]
    environment = {"KUBECONFIG": os.pathsep.join(["", *paths])}

    by_default = load_connection(environment=environment)
    by_name = load_connection(context="two", environment=environment)

    assert by_default.server == "https://first"
    assert (by_name.server, by_name.token) == ("https://two", "t2")


def test_the_file_of_the_home_folder_comes_last(folder: Path) -> None:
    (folder / ".kube").mkdir()
    write(folder / ".kube" / "config", config("https://home"))

    assert load_connection(environment={"HOME": str(folder)}).server == "https://home"


def test_nothing_at_all_is_said_in_one_line(folder: Path) -> None:
    with pytest.raises(InputError, match="no cluster is configured") as caught:
        load_connection(environment={"HOME": str(folder)})

    assert "--kubeconfig" in caught.value.hint


def test_master_replaces_the_address_and_nothing_else(folder: Path) -> None:
    path = write(folder / "a", config(user={"token": "secret"}))

    found = load_connection(path, master="https://elsewhere:1", environment={})

    assert (found.server, found.token) == ("https://elsewhere:1", "secret")


def test_credentials_that_nobody_asked_for_do_not_go_to_master(folder: Path) -> None:
    path = write(folder / "a", config(user={"token": "secret"}))

    found = load_connection(master="elsewhere:8080", environment={"KUBECONFIG": path})

    assert (found.server, found.token) == ("http://elsewhere:8080", "")


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_in_a_pod(folder: Path, host: str, server: str) -> None:
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("authority")

    found = in_cluster({"KUBERNETES_SERVICE_HOST": host}, folder)

    assert (found.server, found.ca) == (server, b"authority")
    # Read again and again: the kubelet rewrites it.
    assert (found.token, found.token_file) == ("", str(folder / "token"))


def test_in_a_pod_without_a_token(folder: Path) -> None:
    with pytest.raises(InputError, match="no service account token"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, folder)


# -- what it says -----------------------------------------------------------------------------


def test_files_are_found_beside_the_kubeconfig(folder: Path) -> None:
    (folder / "ca.pem").write_text("CA")
    (folder / "c.pem").write_text("CERT")
    (folder / "k.pem").write_text("KEY")
    user = {"client-certificate": "c.pem", "client-key": "k.pem", "tokenFile": "tok"}

    found = load(folder, config(cluster={"certificate-authority": "ca.pem"}, user=user))

    assert (found.ca, found.client_cert, found.client_key) == (b"CA", b"CERT", b"KEY")
    assert found.token_file == str(folder / "tok")


def test_inline_data_wins_over_files(folder: Path) -> None:
    inline = base64.b64encode(b"inline").decode()
    cluster = {"certificate-authority": "missing", "certificate-authority-data": inline}

    assert load(folder, config(cluster=cluster)).ca == b"inline"


def test_an_exec_plugin(folder: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "./bin/login",
        "args": ["--for", 7],
        "env": [{"name": "REGION", "value": "x"}],
        "installHint": "get it",
        "provideClusterInfo": True,
    }
    found = load(folder, config(cluster={"tls-server-name": "api"}, user={"exec": plugin}))

    command = found.exec_command
    assert command is not None
    assert (command.command, command.args) == (str(folder / "bin" / "login"), ("--for", "7"))
    assert (command.env, command.install_hint) == ({"REGION": "x"}, "get it")
    assert command.api_version == "client.authentication.k8s.io/v1beta1"
    assert command.cluster == {"server": "https://one:6443", "tls-server-name": "api"}


def test_a_command_without_a_folder_is_looked_up(folder: Path) -> None:
    found = load(folder, config(user={"exec": {"command": "login"}}))

    assert found.exec_command is not None
    assert found.exec_command.command == "login"


def test_secrets_are_not_shown(folder: Path) -> None:
    found = load(folder, config(user={"token": "secret"}))

    assert "secret" not in repr(found)


# -- what is wrong with it --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("just text", "is no kubeconfig"),
        ("", "is no kubeconfig"),
        ("{clusters: [", "flow"),
        ({"clusters": {}, "kind": "Config"}, "no current-context is set"),
        ({**config(), "current-context": "two"}, "context 'two' does not exist"),
        ({**config(), "clusters": []}, "cluster 'one' does not exist"),
        ({**config(), "users": []}, "user 'one-user' does not exist"),
        ({**config(), "clusters": "x"}, "clusters is no list"),
        ({**config(), "users": [3]}, "users holds something that is no user"),
        (config(""), "the cluster has no server address"),
        (config("ftp://x"), "neither http:// nor https://"),
        (config(cluster={"certificate-authority-data": "%%%"}), "is not base64"),
        (config(cluster={"certificate-authority": "missing.pem"}), "cannot be read"),
        (
            config(
                cluster={"certificate-authority-data": "QQ==", "insecure-skip-tls-verify": True}
            ),
            "exclude each other",
        ),
        (config(cluster={"proxy-url": "socks5://p:1"}), "proxies of the sort 'socks5'"),
        (config(user={"client-certificate-data": "QQ=="}), "client-key is missing"),
        (config(user={"client-key-data": "QQ=="}), "client-certificate is missing"),
        (config(user={"auth-provider": {"name": "gcp"}}), "use an exec credential plugin"),
        (config(user={"exec": {"args": []}}), "exec has no command"),
        (config(user={"exec": {"command": "x", "interactiveMode": "Always"}}), "asks questions"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_it(folder: Path, data: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        load(folder, data)

    assert str(folder) in caught.value.where


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_connection(str(folder / "nope"), environment={})

    assert str(caught.value) == f"{folder / 'nope'}: cannot be read: No such file or directory"


# -- proxies ----------------------------------------------------------------------------------

BY_ENVIRONMENT = {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "direct"}


def test_the_proxy_of_the_file_wins_over_the_environment(folder: Path) -> None:
    """And is used whatever NO_PROXY says, which is about the environment's."""
    file = write(folder / "a", config("https://direct", cluster={"proxy-url": "http://file:1"}))

    assert load_connection(file, environment=BY_ENVIRONMENT).proxy == "http://file:1"


@pytest.mark.parametrize(
    ("server", "proxy"), [("https://other", "http://env:1"), ("https://direct", "")]
)
def test_without_one_the_environment_is_asked(folder: Path, server: str, proxy: str) -> None:
    file = write(folder / "a", config(server))

    assert load_connection(file, environment=BY_ENVIRONMENT).proxy == proxy
    assert load_connection(master=server, environment=BY_ENVIRONMENT).proxy == proxy


def test_a_proxy_of_a_sort_that_does_not_work_is_not_passed_by(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_connection(master="https://other", environment={"https_proxy": "socks5://p:1"})

    assert caught.value.where == "HTTPS_PROXY or HTTP_PROXY"


@pytest.mark.parametrize("scheme", ["https://", "http://", "ftp://", ""])
def test_an_address_with_a_password_is_refused_without_showing_it(
    folder: Path, scheme: str
) -> None:
    """It would be in every message that names the server."""
    address = f"{scheme}me:secret@there:6443/path"
    for read in (
        lambda: load(folder, config(address)),
        lambda: load_connection(master=address, environment={}),
    ):
        with pytest.raises(InputError, match="holds a user's name or password") as raised:
            read()
        assert "secret" not in str(raised.value)
