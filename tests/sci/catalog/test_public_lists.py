"""scripts/catalog: what public lists have that the catalog lacks, and which figures differ."""

import json
import subprocess
import sys

from tests.packages import ROOT

KARPENTER = """### `g5.xlarge`
 |karpenter.k8s.aws/instance-gpu-count|1|
 |karpenter.k8s.aws/instance-cpu|4|
 |karpenter.k8s.aws/instance-memory|16384|
### `g5.2xlarge`
 |karpenter.k8s.aws/instance-gpu-count|2|
 |karpenter.k8s.aws/instance-cpu|8|
 |karpenter.k8s.aws/instance-memory|32768|
### `g99.xlarge`
 |karpenter.k8s.aws/instance-accelerator-count|3|
 |karpenter.k8s.aws/instance-cpu|4|
 |karpenter.k8s.aws/instance-memory|16384|
### `m5.large`
 |karpenter.k8s.aws/instance-cpu|2|
 |karpenter.k8s.aws/instance-memory|8192|
"""
AUTOSCALER = """
\t"Standard_NC16as_T4_v3": {
\t\tVCPU:         16,
\t\tMemoryMb:     112640,
\t\tGPU:          1,
\t},
\t"Standard_D2": {
\t\tVCPU:         2,
\t\tMemoryMb:     7168,
\t\tGPU:          0,
\t},
"""
SKYPILOT = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region
cpu_4x_general,,,4.0,16.0,0.2,us-east-1
gpu_1x_a10,A10,1.0,30.0,200.0,1.29,us-east-1
gpu_1x_a10,A10,1.0,30.0,200.0,1.29,us-west-1
gpu_8x_h100_sxm5,H100,8.0,208.0,1800.0,31.92,us-west-1
"""


def compared(tmp_path, *lists):
    for name, text in {"aws": KARPENTER, "azure": AUTOSCALER, "lambda": SKYPILOT}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, ROOT / "scripts/catalog", "--from", tmp_path, *lists]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_new_gone_and_different_machines_are_printed(tmp_path):
    code, lines, _ = compared(tmp_path, "aws")
    assert code == 0
    assert "  new      aws:g99.xlarge  count 3, vcpu 4, host_memory_gib 16" in lines
    assert "  differs  aws:g5.2xlarge  count 1, there 2" in lines
    assert "  gone     aws:p4d.24xlarge" in lines
    assert not [line for line in lines if "m5.large" in line or "g5.xlarge" in line]


def test_figures_that_agree_are_not_printed(tmp_path):
    code, lines, _ = compared(tmp_path, "azure", "lambda")
    assert code == 0
    assert not [line for line in lines if "differs" in line or "new " in line]
    assert "  gone     lambda:gpu_1x_gh200" in lines


def test_a_list_that_cannot_be_read_is_named_and_the_others_are_compared(tmp_path):
    code, lines, said = compared(tmp_path, "oci", "lambda")
    assert code == 1
    assert "oci: not read" in said
    assert any(line.startswith("lambda:") for line in lines)


def test_zones_and_regions_are_compared_too(tmp_path):
    zone = {"zone": {"zoneName": "Germany"}, "carbonIntensity": {"value": 300}}
    (tmp_path / "zones").write_text(json.dumps({"DE": zone, "QQ": zone}), encoding="utf-8")
    names = {"us-east-1": {}, "aws-global": {}, "moon-east-1": {}}
    found = {
        "partitions": [{"id": "aws", "regions": names}, {"id": "aws-iso", "regions": {"s": {}}}]
    }
    (tmp_path / "aws-regions").write_text(json.dumps(found), encoding="utf-8")
    code, lines, _ = compared(tmp_path, "zones", "aws-regions")
    assert code == 0
    assert "  new      QQ  g_per_kwh 300" in lines
    assert "  differs  DE  g_per_kwh 342, there 300" in lines
    assert "  gone     FR" in lines
    assert "  new      aws:moon-east-1" in lines
    assert "  gone     aws:ap-east-2" in lines
    assert not any("global" in line or "aws:us-east-1" in line for line in lines)
