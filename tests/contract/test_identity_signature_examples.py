"""The verifiers that applications copy accept what the gateway signs, and refuse everything else."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from joserfc.jwk import ECKey

from common.identity.headers import IdentityFields
from common.identity.signature import IdentitySigner
from tests.support.counterparts import require_program
from tests.support.identity_cases import EXAMPLES, Case, cases, vector
from tests.support.node import node_environment, require_module, require_node
from tests.support.processes import Children

SIGNER = IdentitySigner()
KEY = ECKey.import_key(SIGNER.public_key_pem)


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wicketgate_example_verify", EXAMPLES / "verify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


EXAMPLE = load_example()


def caller(found: Any) -> IdentityFields:
    return IdentityFields(found.subject, found.email, found.workspace_id, found.roles)


@pytest.mark.parametrize("case", list(cases(SIGNER)), ids=lambda case: case.name)
def test_the_python_example_accepts_and_refuses(case: Case) -> None:
    if case.caller is not None:
        assert caller(EXAMPLE.verify_identity(case.headers, case.method, case.target, KEY)) == case.caller
        return
    with pytest.raises(EXAMPLE.IdentityRefused):
        EXAMPLE.verify_identity(case.headers, case.method, case.target, KEY)


@pytest.mark.parametrize("case", list(cases(SIGNER)), ids=lambda case: case.name)
def test_the_python_example_reads_an_asgi_scope(case: Case) -> None:
    path, _, query = case.target.partition("?")
    scope = {
        "method": case.method,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": list(case.headers),
    }
    if case.caller is not None:
        assert caller(EXAMPLE.verify_asgi(scope, KEY)) == case.caller
        return
    with pytest.raises(EXAMPLE.IdentityRefused):
        EXAMPLE.verify_asgi(scope, KEY)


def test_the_python_example_accepts_the_published_vector() -> None:
    published = vector()
    request = published["request"]
    sent = [(name.encode(), value.encode()) for name, value in request["headers"]]
    key = ECKey.import_key(published["publicKey"])
    assert EXAMPLE.verify_identity(sent, request["method"], request["target"], key).subject == "user-1"


# A real server: what Node makes of header bytes and of the request target is part of what is tested.
SERVER = """
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { importSPKI } from "jose";
import { IdentityRefused, verifyIdentity } from "./verify.js";

const key = await importSPKI(readFileSync(process.argv[2], "utf8"), "ES256");
const server = createServer(async (request, response) => {
  try {
    response.end(JSON.stringify(await verifyIdentity(request, key)));
  } catch (error) {
    response.statusCode = error instanceof IdentityRefused ? 401 : 500;
    response.end(String(error));
  }
});
server.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`));
"""


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """The TypeScript example as JavaScript, beside its packages."""
    node = require_node()
    require_module("jose", EXAMPLES)
    compiler = require_module("typescript", EXAMPLES) / "bin" / "tsc"
    shutil.copy(EXAMPLES / "package.json", tmp_path)
    (tmp_path / "node_modules").symlink_to(EXAMPLES / "node_modules")
    told = subprocess.run(
        [node, compiler, "--project", EXAMPLES, "--outDir", tmp_path],
        capture_output=True,
        text=True,
        timeout=100,
        env=node_environment(),
        check=False,
    )
    assert told.returncode == 0, told.stdout
    return tmp_path


def start_server(children: Children, folder: Path, public_key: str) -> int:
    (folder / "server.js").write_text(SERVER)
    (folder / "public.pem").write_text(public_key)
    argv: list[str | Path] = [require_node(), folder / "server.js", folder / "public.pem"]
    server = children.start(argv, name="node", env=node_environment(), cwd=folder)
    return int(server.wait_for_line(r"^port (\d+)$")[1])


GO_SERVER = """
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	"example/identity"
)

func main() {
	text, _ := os.ReadFile(os.Args[1])
	key, err := identity.ParseKey(text)
	if err != nil {
		panic(err)
	}
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	fmt.Printf("port %d\\n", listener.Addr().(*net.TCPAddr).Port)
	http.Serve(listener, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		caller, err := identity.Verify(request, key)
		if err != nil {
			http.Error(response, err.Error(), http.StatusUnauthorized)
			return
		}
		json.NewEncoder(response).Encode(caller)
	}))
}
"""


@pytest.fixture
def go_server(tmp_path: Path) -> Path:
    """The Go example in a server of its own, compiled."""
    go = require_program("go")
    (tmp_path / "identity").mkdir()
    shutil.copy(EXAMPLES / "verify.go", tmp_path / "identity")
    (tmp_path / "main.go").write_text(GO_SERVER)
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.19\n")
    environment = os.environ | {"GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    built = subprocess.run(
        [go, "build", "-o", "server", "."], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110,
        check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return tmp_path / "server"


@pytest.mark.real
@pytest.mark.slow
def test_the_go_example_accepts_and_refuses(go_server: Path, children: Children, tmp_path: Path) -> None:
    published = vector()
    request = published["request"]
    sent = tuple((name.encode(), value.encode()) for name, value in request["headers"])
    known = published["caller"]
    shown = IdentityFields(known["subject"], known["email"], known["workspaceId"], tuple(known["roles"]))
    of_vector = Case("published", request["method"], request["target"], sent, shown)
    for key, asked in ((SIGNER.public_key_pem, list(cases(SIGNER))), (published["publicKey"], [of_vector])):
        (tmp_path / "public.pem").write_text(key)
        server = children.start([go_server, tmp_path / "public.pem"], name="go", cwd=tmp_path)
        port = int(server.wait_for_line(r"^port (\d+)$")[1])
        for case in asked:
            status, body = ask(port, case.method, case.target, list(case.headers))
            assert (case.name, status) == (case.name, 401 if case.caller is None else 200), body
            if case.caller is not None:
                found = json.loads(body)
                roles = tuple(found["roles"])
                assert IdentityFields(found["subject"], found["email"], found["workspaceId"], roles) == case.caller


def ask(port: int, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("host", "app")
        connection.putheader("content-length", "0")
        for name, value in headers:
            connection.putheader(name.decode(), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.real
@pytest.mark.slow
def test_the_typescript_example_accepts_and_refuses(compiled: Path, children: Children) -> None:
    port = start_server(children, compiled, SIGNER.public_key_pem)
    for case in cases(SIGNER):
        status, body = ask(port, case.method, case.target, list(case.headers))
        if case.caller is None:
            assert (case.name, status) == (case.name, 401), body
            continue
        assert (case.name, status) == (case.name, 200), body
        found = json.loads(body)
        roles = tuple(found.pop("roles"))
        assert IdentityFields(found["subject"], found["email"], found["workspaceId"], roles) == case.caller

    published = vector()
    request = published["request"]
    port = start_server(children, compiled, published["publicKey"])
    sent = [(name.encode(), value.encode()) for name, value in request["headers"]]
    status, body = ask(port, request["method"], request["target"], sent)
    assert (status, json.loads(body)) == (200, published["caller"])
