"""The Helm chart: what it renders is valid, starts, and keeps the planes apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from common.routetable.compiled import DeploymentDefaults
from common.routetable.load import load_route_table
from common.settings.challenges import ChallengesSettings
from common.settings.secret import Secret
from dataplane.endpoints.challenges import CHALLENGE_PREFIX
from tests.support.certificates import authority
from tests.support.deployments import DEPLOY, problems_of, secret_file
from tests.support.helm import ask_helm, render

CHART = DEPLOY / "helm/wicketgate"
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
    "serviceMonitor": {"enabled": True},
}  # fmt: skip
LITTLE = LEAST | {
    "control": {"enabled": False},
    "migration": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "gateway": {"autoscaling": {"enabled": False}},
}
FROM_A_SECRET = LEAST | {
    "tls": {"secret": "app-tls", "minVersion": "1.3"},
    "gateway": {
        "workers": 2,
        "env": {"GATEWAY_OIDC_CA": "/etc/wicketgate/authority.pem"},
        "files": {"authority.pem": authority().cert_pem.bytes().decode()},
        "service": {"type": "LoadBalancer"},
    },
}
FROM_AN_AUTHORITY = LEAST | {
    "tls": {
        "acme": {
            "directory": "https://ca.example.com/directory",
            "names": ["example.com", "*.example.com"],
            "email": "operations@example.com",
            "challenge": "dns-01",
            "dnsWriterUrl": "https://dns-writer.internal/records",
            "eabKid": "edge",
        }
    },
    "gateway": {"secretKeys": ["more"], "service": {"type": "NodePort"}},
    "networkPolicy": {"gatewayEgress": [{"ports": [{"port": 443}]}]},
}
WITH_A_RESPONDER = LEAST | {
    "tls": {
        "acme": {
            "directory": "https://ca.example.com/directory",
            "names": ["app.example.com", "api.example.com"],
            "responder": {"enabled": True, "ingress": {"className": "nginx", "annotations": {"a": "b"}}},
        }
    },
    "gateway": {"env": {"GATEWAY_STATE_PREFIX": "edge"}, "service": {"type": "LoadBalancer"}},
    "networkPolicy": {
        "ingressNamespaceLabels": {"kubernetes.io/metadata.name": "ingress"},
        "gatewayEgress": [{"ports": [{"port": 6379}]}],
    },
}
WITH_A_KEY = LEAST | {"oidc": LEAST["oidc"] | {"clientAuth": "private_key_jwt"}}
CASES = {
    "least": LEAST,
    "most": MOST,
    "little": LITTLE,
    "certificate-from-a-secret": FROM_A_SECRET,
    "certificate-from-an-authority": FROM_AN_AUTHORITY,
    "with-a-responder-to-challenges": WITH_A_RESPONDER,
    "with-a-key-for-the-provider": WITH_A_KEY,
}


def objects(values: dict[str, Any]) -> list[dict[str, Any]]:
    texts = [text for name, text in render(CHART, values).items() if name.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def containers(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod of each workload, by its program."""
    pods = [each["spec"]["template"]["spec"] for each in found if each["kind"] in ("Deployment", "Job")]
    return {" ".join(pod["containers"][0]["command"]).removesuffix(" run"): pod for pod in pods}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_every_object_is_one_that_kubernetes_knows(case: str, version: str) -> None:
    found = objects(CASES[case])
    assert {"Deployment", "Service", "PodDisruptionBudget"} <= {each["kind"] for each in found}
    for each in found:
        # The Prometheus operator's own kind has no schema there.
        if each["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("case", CASES)
def test_every_program_starts_with_its_environment_and_secrets(case: str) -> None:
    found = objects(CASES[case])
    (mounted,) = [each["data"] for each in found if each["kind"] == "ConfigMap"]

    def read(path: str) -> bytes:
        place, _, name = path.rpartition("/")
        return mounted[name].encode() if place == "/etc/wicketgate" else secret_file(path)

    for program, pod in containers(found).items():
        container = pod["containers"][0]
        environment = {each["name"]: each.get("value", "edge-gateway-1") for each in container["env"]}
        assert problems_of(program, environment, read) == []
        (secrets,) = [each["secret"] for each in pod["volumes"] if each["name"] == "secrets"]
        files = {each["path"] for each in secrets["items"]} - {"more"}
        assert {Path(value).name for name, value in environment.items() if name.endswith("_FILE")} == files


@pytest.mark.parametrize("case", ["certificate-from-a-secret", "certificate-from-an-authority"])
def test_callers_reach_the_port_that_tls_is_on(case: str) -> None:
    found = objects(CASES[case])
    (container,) = containers(found)["gateway"]["containers"]
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert named == {"http": 8080, "https": 8443}
    assert not {"GATEWAY_PORT", "GATEWAY_TLS_PORT"} & {each["name"] for each in container["env"]}
    (service,) = [each for each in found if each["kind"] == "Service" and each["metadata"]["name"] == "edge-gateway"]
    assert {each["port"]: each["targetPort"] for each in service["spec"]["ports"]} == {80: "http", 443: "https"}
    (policy,) = [
        each for each in found if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "edge-gateway"
    ]
    assert policy["spec"]["ingress"] == [{"ports": [{"port": "http"}, {"port": "https"}]}]


def test_each_file_that_a_variable_names_is_mounted() -> None:
    found = objects(FROM_A_SECRET)
    pod = containers(found)["gateway"]
    (container,) = pod["containers"]
    places = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    (held,) = [each["data"] for each in found if each["kind"] == "ConfigMap"]
    for name, value in {each["name"]: each.get("value", "") for each in container["env"]}.items():
        if value.startswith("/"):
            volume = volumes[places[str(Path(value).parent)]]
            if "configMap" in volume:
                assert Path(value).name in held
            else:
                assert name.endswith("_FILE") or volume["secret"]["secretName"] == "app-tls"


@pytest.mark.parametrize("case", CASES)
def test_no_container_may_write_or_gain_rights(case: str) -> None:
    for pod in containers(objects(CASES[case])).values():
        assert pod["enableServiceLinks"] is False
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        may = pod["containers"][0]["securityContext"]
        assert (may["readOnlyRootFilesystem"], may["allowPrivilegeEscalation"]) == (True, False)
        assert may["capabilities"] == {"drop": ["ALL"]}


def test_each_program_has_only_its_own_credentials() -> None:
    pods = containers(objects(MOST))
    volumes = {program: [each for each in pod["volumes"] if "secret" in each] for program, pod in pods.items()}
    assert {program: [each["secret"]["secretName"] for each in its] for program, its in volumes.items()} == {
        "gateway": ["gateway-secrets"],
        "gateway-control": ["control-secrets"],
        "gateway-control migrate": ["owner-secrets"],
    }


def test_the_responder_has_the_state_that_gateways_publish_in_and_no_other_secret_of_theirs() -> None:
    pods = containers(objects(WITH_A_RESPONDER))
    environments = {
        program: {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        for program, pod in pods.items()
    }
    shared = {"GATEWAY_STATE_URL_FILE", "GATEWAY_STATE_PREFIX"}
    assert set(environments["gateway-challenges"]) == shared | {"GATEWAY_ENV"}
    assert {name: environments["gateway"][name] for name in shared} == {
        name: environments["gateway-challenges"][name] for name in shared
    }
    (secrets,) = [each["secret"] for each in pods["gateway-challenges"]["volumes"]]
    assert secrets["secretName"] == "gateway-secrets"


def test_the_path_of_challenges_leads_to_the_responder_for_each_name_of_the_certificate() -> None:
    found = objects(WITH_A_RESPONDER)
    (ingress,) = [each for each in found if each["kind"] == "Ingress"]
    led = {
        rule["host"]: [(path["path"], path["backend"]["service"]) for path in rule["http"]["paths"]]
        for rule in ingress["spec"]["rules"]
    }
    # With TLS, an ingress would redirect the authority to a certificate that is not there yet.
    assert "tls" not in ingress["spec"]
    (service,) = [each for each in found if each["kind"] == "Service" and each["metadata"]["name"] == "edge-challenges"]
    (port,) = service["spec"]["ports"]
    place = {"name": "edge-challenges", "port": {"name": port["name"]}}
    assert led == {name: [(CHALLENGE_PREFIX, place)] for name in ("app.example.com", "api.example.com")}
    (container,) = containers(found)["gateway-challenges"]["containers"]
    assert container["ports"] == [
        {"name": port["targetPort"], "containerPort": ChallengesSettings(Secret("")).challenges_port}
    ]


def test_the_responder_answers_the_ingress_alone_and_calls_nobody_whom_the_gateway_may_not() -> None:
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in objects(WITH_A_RESPONDER) if each["kind"] == "NetworkPolicy"
    }  # fmt: skip
    gateway, responder = policies["edge-gateway"], policies["edge-challenges"]
    assert responder["policyTypes"] == ["Ingress", "Egress"]
    assert responder["egress"] == gateway["egress"]
    assert responder["ingress"] == [
        {
            "ports": [{"port": "http"}],
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        }
    ]


def test_what_prometheus_scrapes_knows_the_token_it_brings() -> None:
    found = objects(MOST)
    scraped = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "ServiceMonitor"}
    assert set(scraped) == {"edge-gateway", "edge-control"}
    for each in found:
        if each["kind"] == "Service":
            (endpoint,) = scraped[each["metadata"]["name"]]["endpoints"]
            assert endpoint["port"] in {port["name"] for port in each["spec"]["ports"]}
            assert (
                scraped[each["metadata"]["name"]]["selector"]["matchLabels"].items()
                <= each["metadata"]["labels"].items()
            )
        if each["kind"] == "Deployment":
            (endpoint,) = scraped[each["metadata"]["name"]]["endpoints"]
            (secrets,) = [it["secret"] for it in each["spec"]["template"]["spec"]["volumes"] if it["name"] == "secrets"]
            credentials = endpoint["authorization"]["credentials"]
            assert credentials["name"] == secrets["secretName"]
            assert credentials["key"] in {it["key"] for it in secrets["items"]}


@pytest.mark.parametrize(("case", "selecting_objects"), [("most", 5), ("with-a-responder-to-challenges", 7)])
def test_services_and_policies_select_the_pods_they_are_for(case: str, selecting_objects: int) -> None:
    found = objects(CASES[case])
    running = [each for each in found if each["kind"] == "Deployment"]
    labels = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in running}
    selecting = [each for each in found if each["kind"] in ("Service", "NetworkPolicy", "PodDisruptionBudget")]
    assert len(selecting) == selecting_objects
    for each in selecting:
        selector = each["spec"].get("selector") or each["spec"]["podSelector"]
        wanted = selector.get("matchLabels", selector)
        assert wanted.items() <= labels[each["metadata"]["name"]].items()


def test_no_gateway_may_call_the_control_plane() -> None:
    """Somebody who took a gateway over has no way to what decides who reaches the applications."""
    (policy,) = [
        each for each in objects(MOST)
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "edge-control"
    ]  # fmt: skip
    (rule,) = policy["spec"]["ingress"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert all(set(source) == {"namespaceSelector"} for source in rule["from"])
    assert {"kubernetes.io/metadata.name": "wicketgate-operators"} in [
        source["namespaceSelector"]["matchLabels"] for source in rule["from"]
    ]


def test_the_time_to_end_holds_the_drain() -> None:
    pod = containers(objects(LEAST | {"gateway": {"shutdownSeconds": 40, "preStopSeconds": 7}}))["gateway"]
    environment = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert environment["GATEWAY_SHUTDOWN_TIMEOUT_MS"] == "40000"
    # What a supervisor of several workers needs: docs/workers.md#signals.
    assert pod["terminationGracePeriodSeconds"] == 7 + 40 + 10
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 7}}}


def test_the_table_of_the_values_is_the_one_that_is_served() -> None:
    (served,) = [each for each in objects(MOST) if each["kind"] == "ConfigMap"]
    table = load_route_table(served["data"]["routes.json"].encode(), DeploymentDefaults())
    assert [route.id for route in table.routes] == ["app"]


@pytest.mark.parametrize("case", CASES)
def test_helm_lints_it_clean(case: str) -> None:
    linted = ask_helm("lint", CHART, CASES[case])
    assert linted.returncode == 0, linted.stderr
    found = json.loads(linted.stdout)
    # 1 is advice: that a chart could have an icon.
    assert (found["errors"], [each for each in found["messages"] if each["severity"] > 1]) == ([], [])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"publicUrl": "http://app.example.com"}, "/publicUrl"),
        ({"publicUrl": "https://app.example.com/path"}, "/publicUrl"),
        ({"oidc": {"issuer": "https://login.example.com", "clientId": "", "audience": "app"}}, "/oidc/clientId"),
        ({"secrets": {"gateway": ""}}, "/secrets/gateway"),
        ({"configSource": "git"}, "/configSource"),
        ({"gateway": {"env": {"GATEWAY_CSRF_STRICT": True}}}, "/gateway/env/GATEWAY_CSRF_STRICT"),
        ({"secrets": {"gateway": "gateway-secrets"}}, "name the Secret of"),
        ({"tls": {"secret": "a", "acme": {"directory": "https://ca"}}}, "remove one of the two"),
        ({"tls": {"acme": {"directory": "https://ca"}}}, "tls.acme.names"),
        (
            {"tls": {"acme": {"directory": "https://ca", "names": ["a"], "challenge": "dns-01"}}},
            "tls.acme.dnsWriterUrl",
        ),
        ({"tls": {"cert": "a"}}, "/tls"),
        ({"tls": {"acme": {"responder": {"enabled": "yes"}}}}, "/tls/acme/responder/enabled"),
        ({"tls": {"acme": {"responder": {"enabled": True}}}}, "tls.acme.responder"),
        (
            {"tls": {"acme": FROM_AN_AUTHORITY["tls"]["acme"] | {"responder": {"enabled": True}}}},
            "tls.acme.responder",
        ),
        (FROM_A_SECRET | {"gateway": MOST["gateway"]}, "turn one of them off"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_installed(wrong: dict[str, Any], named: str) -> None:
    refused = ask_helm("render", CHART, LEAST | wrong)
    assert refused.returncode == 1
    assert named in refused.stderr
