"""The Helm chart: what it renders is valid, starts, and keeps the planes apart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from common.routetable.compiled import DeploymentDefaults
from common.routetable.load import load_route_table
from tests.support.counterparts import missing
from tests.support.deployments import DEPLOY, problems_of

CHART = DEPLOY / "helm/wicketgate"
GO_PATH = Path("/usr/share/gocode")
# The oldest that the chart admits, and the newest whose schemas are known.
VERSIONS = ("1.30", "1.37")

LEAST: dict[str, Any] = {
    "publicUrl": "https://app.example.com",
    "oidc": {"issuer": "https://login.example.com", "clientId": "app", "audience": "app"},
    "secrets": {"gateway": "gateway-secrets", "control": "control-secrets", "migration": "owner-secrets"},
}
MOST = LEAST | {
    "access": {"url": "http://access.platform.svc:8090"},
    "configSource": "file",
    "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": ["registry"]},
    "routes": {
        "version": 2,
        "routes": [{"id": "app", "match": {"path": "/"}, "upstream": "http://app", "auth": {"mode": "session"}}],
    },
    "gateway": {
        "trustedProxies": ["10.0.0.7/32", "10.0.0.8/32"],
        "env": {"GATEWAY_CSRF_STRICT": "true"},
        "podAnnotations": {"team": "edge"},
        "nodeSelector": {"pool": "edge"},
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "ingress": {"enabled": True, "host": "app.example.com", "className": "nginx", "tlsSecret": "app-tls"},
        "service": {"annotations": {"a": "b"}},
    },
    "control": {"protectedRoutes": ["app"], "env": {"GATEWAY_LOG_LEVEL": "debug"}, "podAnnotations": {"team": "edge"}},
    "networkPolicy": {"ingressNamespaceLabels": {"kubernetes.io/metadata.name": "ingress"}},
}  # fmt: skip
LITTLE = LEAST | {
    "control": {"enabled": False},
    "migration": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "gateway": {"autoscaling": {"enabled": False}},
}
CASES = {"least": LEAST, "most": MOST, "little": LITTLE}


@pytest.fixture(scope="session")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Go's templates with Sprig: the engine of `helm template`."""
    go = shutil.which("go")
    if go is None or not (GO_PATH / "src/github.com/Masterminds/sprig").is_dir():
        missing("go", "with Sprig: apt-get install golang-go golang-github-masterminds-sprig-dev")
    folder = tmp_path_factory.mktemp("render")
    built = subprocess.run(
        [go, "build", "-o", folder / "render", Path(__file__).parents[1] / "support/helm/render.go"],
        env=os.environ | {"GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOCACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder / "render"


def rendered(renderer: Path, values: dict[str, Any]) -> dict[str, str]:
    result = subprocess.run(
        [renderer, CHART, "edge"], input=json.dumps(values), capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    files: dict[str, str] = json.loads(result.stdout)
    return files


def objects(renderer: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    texts = [text for name, text in rendered(renderer, values).items() if name.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def containers(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod of each workload, by its program."""
    pods = [each["spec"]["template"]["spec"] for each in found if each["kind"] in ("Deployment", "Job")]
    return {" ".join(pod["containers"][0]["command"]).removesuffix(" run"): pod for pod in pods}


def with_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """The chart's values with these laid over them, as Helm does."""

    def laid(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        both = {name: laid(below[name], above[name]) for name in below.keys() & above if isinstance(below[name], dict)}
        return below | above | both

    return laid(yaml.safe_load((CHART / "values.yaml").read_text()), values)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_every_object_is_one_that_kubernetes_knows(renderer: Path, case: str, version: str) -> None:
    found = objects(renderer, CASES[case])
    assert {"Deployment", "Service", "PodDisruptionBudget"} <= {each["kind"] for each in found}
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("case", CASES)
def test_every_program_starts_with_its_environment_and_secrets(renderer: Path, case: str) -> None:
    for program, pod in containers(objects(renderer, CASES[case])).items():
        container = pod["containers"][0]
        environment = {each["name"]: each.get("value", "edge-gateway-1") for each in container["env"]}
        assert problems_of(program, environment) == []
        (secrets,) = [each["secret"] for each in pod["volumes"] if "secret" in each]
        files = {each["path"] for each in secrets["items"]}
        assert {Path(value).name for name, value in environment.items() if name.endswith("_FILE")} == files


@pytest.mark.parametrize("case", CASES)
def test_no_container_may_write_or_gain_rights(renderer: Path, case: str) -> None:
    for pod in containers(objects(renderer, CASES[case])).values():
        assert pod["enableServiceLinks"] is False
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        may = pod["containers"][0]["securityContext"]
        assert (may["readOnlyRootFilesystem"], may["allowPrivilegeEscalation"]) == (True, False)
        assert may["capabilities"] == {"drop": ["ALL"]}


def test_each_program_has_only_its_own_credentials(renderer: Path) -> None:
    pods = containers(objects(renderer, MOST))
    volumes = {program: [each for each in pod["volumes"] if "secret" in each] for program, pod in pods.items()}
    assert {program: [each["secret"]["secretName"] for each in its] for program, its in volumes.items()} == {
        "gateway": ["gateway-secrets"],
        "gateway-control": ["control-secrets"],
        "gateway-control migrate": ["owner-secrets"],
    }


def test_services_and_policies_select_the_pods_they_are_for(renderer: Path) -> None:
    found = objects(renderer, MOST)
    running = [each for each in found if each["kind"] == "Deployment"]
    labels = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in running}
    selecting = [each for each in found if each["kind"] in ("Service", "NetworkPolicy", "PodDisruptionBudget")]
    assert len(selecting) == 5
    for each in selecting:
        selector = each["spec"].get("selector") or each["spec"]["podSelector"]
        wanted = selector.get("matchLabels", selector)
        assert wanted.items() <= labels[each["metadata"]["name"]].items()


def test_no_gateway_may_call_the_control_plane(renderer: Path) -> None:
    """Somebody who took a gateway over has no way to what decides who reaches the applications."""
    (policy,) = [
        each for each in objects(renderer, MOST)
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "edge-control"
    ]  # fmt: skip
    (rule,) = policy["spec"]["ingress"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert all(set(source) == {"namespaceSelector"} for source in rule["from"])
    assert {"kubernetes.io/metadata.name": "wicketgate-operators"} in [
        source["namespaceSelector"]["matchLabels"] for source in rule["from"]
    ]


def test_the_time_to_end_holds_the_drain(renderer: Path) -> None:
    pod = containers(objects(renderer, LEAST | {"gateway": {"shutdownSeconds": 40, "preStopSeconds": 7}}))["gateway"]
    environment = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert environment["GATEWAY_SHUTDOWN_TIMEOUT_MS"] == "40000"
    assert pod["terminationGracePeriodSeconds"] > 47
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 7}}}


def test_the_table_of_the_values_is_the_one_that_is_served(renderer: Path) -> None:
    (served,) = [each for each in objects(renderer, MOST) if each["kind"] == "ConfigMap"]
    table = load_route_table(served["data"]["routes.json"].encode(), DeploymentDefaults())
    assert [route.id for route in table.routes] == ["app"]


@pytest.mark.parametrize("case", CASES)
def test_values_fit_their_schema(case: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(with_defaults(CASES[case]), schema)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"publicUrl": "http://app.example.com"},
        {"publicUrl": "https://app.example.com/path"},
        {"oidc": {"issuer": "https://login.example.com", "clientId": "", "audience": "app"}},
        {"secrets": {"gateway": ""}},
        {"configSource": "git"},
        {"gateway": {"env": {"GATEWAY_CSRF_STRICT": True}}},
    ],
)
def test_wrong_values_are_refused_before_anything_is_installed(wrong: dict[str, Any]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(with_defaults((LEAST if wrong else {}) | wrong), schema)


def test_a_secret_that_is_not_named_is_asked_for(renderer: Path) -> None:
    values = LEAST | {"secrets": {"gateway": "gateway-secrets"}}
    result = subprocess.run(
        [renderer, CHART, "edge"], input=json.dumps(values), capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 1
    assert "name the Secret of" in result.stderr
