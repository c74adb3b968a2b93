"""docs/deploy/kubernetes: the API's schemas admit the manifests, which fit each other, the image and the settings."""

import re
import shutil
import subprocess
from urllib.parse import urlsplit

import pytest
import yaml

from fcshim.config import FILE_VARIABLE, check_file, load_config, settings
from fcshim.server.app import create_app
from tests.test_deployment import DEPLOY, environment, instructions

validator = pytest.importorskip("kubernetes_validate")

FOLDER = DEPLOY / "kubernetes"
MONITORING = FOLDER / "monitoring"
LABELS = {"app.kubernetes.io/name": "fcshim"}
KEY = "key-of-clients"


def load(file):
    return yaml.safe_load(file.read_text("utf-8"))


KUSTOMIZATION = load(FOLDER / "kustomization.yaml")
MANIFESTS = {document["kind"]: document for document in (load(FOLDER / name) for name in KUSTOMIZATION["resources"])}
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def validate(manifest, version):
    validator.validate(manifest, version, strict=True)


@pytest.fixture
def config():
    """The settings that a pod has: those of the image, the file and the secret."""
    variables = {**environment(), "FCSHIM_API_KEYS": KEY}
    return load_config(env=variables, file=FOLDER / "fcshim.toml")


@pytest.mark.parametrize("version", ["1.29", validator.latest_version()])
@pytest.mark.parametrize("kind", MANIFESTS)
def test_the_schemas_of_the_api_admit_each_manifest(kind, version):
    validate(MANIFESTS[kind], version)


def test_a_manifest_with_a_misspelt_field_is_refused():
    """Else the test above would say nothing."""
    broken = {**MANIFESTS["Service"], "spec": {**MANIFESTS["Service"]["spec"], "port": 80}}

    with pytest.raises(validator.ValidationError):
        validate(broken, validator.latest_version())


def test_every_file_is_part_of_a_kustomization():
    files = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    listed = {name for each in KUSTOMIZATION["configMapGenerator"] for name in each["files"]}

    assert files == set(KUSTOMIZATION["resources"])
    assert {file.name for file in FOLDER.glob("*.toml")} == listed
    assert ["pod-monitor.yaml"] == load(MONITORING / "kustomization.yaml")["resources"]


def test_everything_selects_the_pods_of_the_deployment():
    deployment = MANIFESTS["Deployment"]
    chosen = [
        deployment["spec"]["selector"]["matchLabels"],
        MANIFESTS["Service"]["spec"]["selector"],
        MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in POD["topologySpreadConstraints"]),
        load(MONITORING / "pod-monitor.yaml")["spec"]["selector"]["matchLabels"],
    ]
    target = MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]

    assert LABELS == deployment["spec"]["template"]["metadata"]["labels"]
    assert [LABELS] * len(chosen) == chosen
    assert {"apiVersion": deployment["apiVersion"], "kind": "Deployment", "name": "fcshim"} == target
    assert {"fcshim"} == {manifest["metadata"]["name"] for manifest in MANIFESTS.values()}


def test_ports_are_those_on_which_the_image_listens(config):
    (port,) = CONTAINER["ports"]
    (served,) = MANIFESTS["Service"]["spec"]["ports"]
    (monitored,) = load(MONITORING / "pod-monitor.yaml")["spec"]["podMetricsEndpoints"]
    (entered,) = (port["port"] for rule in MANIFESTS["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"])
    probed = {CONTAINER[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}

    assert (config.port, "0.0.0.0") == (port["containerPort"], config.host)
    assert {port["name"]} == {served["targetPort"], monitored["port"], entered, *probed}


async def test_probes_are_answered_without_the_key_and_figures_with_it(config):
    answers = {}
    (monitored,) = load(MONITORING / "pod-monitor.yaml")["spec"]["podMetricsEndpoints"]
    probes = {CONTAINER[name]["httpGet"]["path"] for name in CONTAINER if name.endswith("Probe")}
    app = create_app(config)

    async def ask(path, *headers):
        async def send(message):
            answers.setdefault((path, bool(headers)), message.get("status"))

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        head = [(b"host", b"10.0.0.7:8181"), *headers]
        scope = {"type": "http", "method": "GET", "path": path, "headers": head, "server": ("10.0.0.7", 8181)}
        await app(scope, receive, send)

    for path in (*probes, monitored["path"]):
        await ask(path)
        await ask(path, (b"authorization", f"Bearer {KEY}".encode()))
    await app.aclose()

    assert {"/health", "/ready"} == probes
    assert (200, 503) == (answers["/health", False], answers["/ready", False])  # there is no upstream here
    assert (401, 200) == (answers["/metrics", False], answers["/metrics", True])


def test_the_settings_are_valid_and_reach_the_program(config):
    variables = {each["name"]: each for each in CONTAINER["env"]}
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}

    assert [] == check_file(FOLDER / "fcshim.toml", {})
    assert set(variables) - {FILE_VARIABLE} <= {setting.env for setting in settings()}
    assert generated["name"] == volumes["settings"]["configMap"]["name"]
    assert variables[FILE_VARIABLE]["value"] == f"{mounts['settings']}/{generated['files'][0]}"
    assert set(volumes) == set(mounts)
    for name in ("FCSHIM_API_KEYS", "FCSHIM_UPSTREAM_KEY", "FCSHIM_STORE_KEY"):
        reference = variables[name]["valueFrom"]["secretKeyRef"]
        assert (KUSTOMIZATION["secretGenerator"][0]["name"], name) == (reference["name"], reference["key"])


def test_the_image_and_the_pod_agree():
    extras = re.search(r"fcshim\[([a-z,]+)\]", (DEPLOY / "Dockerfile").read_text("utf-8"))[1].split(",")
    user, group = map(int, instructions("Dockerfile")["USER"].split(":"))
    security = POD["securityContext"]

    assert {"metrics", "redis"} <= {*extras}  # what the settings need
    assert (True, user, group) == tuple(security[name] for name in ("runAsNonRoot", "runAsUser", "runAsGroup"))
    assert {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    } == CONTAINER["securityContext"]
    assert [CONTAINER["image"]] == [image["name"] for image in KUSTOMIZATION["images"]]


def test_a_pod_has_time_to_drain_and_others_serve_meanwhile(config):
    (pause,) = (int(word) for word in CONTAINER["lifecycle"]["preStop"]["exec"]["command"] if word.isdigit())
    scaling = MANIFESTS["HorizontalPodAutoscaler"]["spec"]

    assert POD["terminationGracePeriodSeconds"] > pause + config.drain_timeout
    assert 0 == MANIFESTS["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"]
    assert scaling["minReplicas"] > MANIFESTS["PodDisruptionBudget"]["spec"]["maxUnavailable"]
    assert "replicas" not in MANIFESTS["Deployment"]["spec"]


def test_the_autoscaler_asks_for_a_figure_that_exists_for_each_pod(config):
    (metric,) = MANIFESTS["HorizontalPodAutoscaler"]["spec"]["metrics"]
    (rule,) = load(MONITORING / "prometheus-adapter.yaml")["rules"]["custom"]
    name = metric["pods"]["metric"]["name"]
    module = pytest.importorskip("fcshim.server.metrics")

    assert config.metrics
    assert name in module.Metrics("http://127.0.0.1:1")._registry._names_to_collectors
    assert name == rule["name"]["as"] == rule["seriesQuery"].partition("{")[0]
    assert {"namespace", "pod"} == set(rule["resources"]["overrides"])


@pytest.mark.parametrize("setting", ["upstream", "store"])
def test_the_network_policy_lets_the_proxy_reach_what_the_settings_name(config, setting):
    address = urlsplit(getattr(config, setting))
    reached = {
        (rule["to"][0].get("podSelector", {}).get("matchLabels", {}).get("app"), port["port"])
        for rule in MANIFESTS["NetworkPolicy"]["spec"]["egress"]
        for port in rule["ports"]
    }

    assert (address.hostname, address.port) in reached


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
@pytest.mark.parametrize(("folder", "keys"), [(FOLDER, "keys.env"), (MONITORING, "prometheus.env")])
def test_kubectl_builds_what_the_schemas_admit(tmp_path, folder, keys):
    shutil.copytree(folder, tmp_path / "k")
    (tmp_path / "k" / keys).write_text(f"FCSHIM_API_KEYS={KEY}\nPROMETHEUS_KEY={KEY}\n", "utf-8")
    command = ["kubectl", "kustomize", str(tmp_path / "k")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    built = list(yaml.safe_load_all(done.stdout))

    assert (0, "") == (done.returncode, done.stderr)
    assert "Secret" in {manifest["kind"] for manifest in built}
    for manifest in built:
        if manifest["kind"] != "PodMonitor":  # its schema belongs to the operator
            validate(manifest, validator.latest_version())
