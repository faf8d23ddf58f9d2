"""`irrun conformance`: results, findings that can be run again, processes that end, and mistakes."""

from __future__ import annotations

import json
import shlex
import sys

import pytest
from command_line import call

import irrun
from conformance.processes import end_at_once, work
from irrun.conformance.fault import get_instruction_set
from irrun.conformance.page import render_survey
from irrun.conformance.pool import Pool
from irrun.conformance.survey import Finding, OperationResult, Survey, run_survey
from irrun.conformance.worker import Task, WorkerSettings

pytest.importorskip("openvino")


def run_pool(tmp_path, tasks, count=2, target=work):
    outcomes = {}
    pool = Pool(count, WorkerSettings("CPU", 0, tmp_path / "log"), 1, target)
    pool.run(tasks, lambda task, outcome: outcomes.setdefault(outcome.number, []).append(outcome))
    assert all(len(found) == 1 for found in outcomes.values())
    return {number: found[0] for number, found in outcomes.items()}


def test_cases_that_end_their_process_are_run_alone_and_all_others_run_once(tmp_path):
    outcomes = run_pool(tmp_path, [Task("Relu", 1, (0, 1, 5)), Task("Relu", 1, (6, 2, 7)), Task("Relu", 1, (8, 3, 4))])
    assert sorted(outcomes) == list(range(9))
    statuses = {number: outcome.status for number, outcome in outcomes.items()}
    assert statuses == dict.fromkeys(range(9), "agree") | {1: "crashed", 2: "crashed"}
    assert outcomes[1].text == "the process ended with exit code 7: last line"
    assert outcomes[2].text == "no result after 1 s"
    assert outcomes[3].text != outcomes[8].text  # another process


def test_processes_that_do_not_start_are_an_error(tmp_path):
    with pytest.raises(irrun.ExecutionError, match="before it ran a case with exit code 3: cannot start"):
        run_pool(tmp_path, [Task("Relu", 1, (0,))], target=end_at_once)


def test_command_finds_known_faults_and_writes_models_that_show_them(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "conformance", "--ops", "assign-*", "--ops", "Swish", "--cases", "9", "--json")
    assert (code, err) == (1, "")
    data = json.loads(out)
    assert data["cases"] == sum(data[status] for status in ("agree", "differ", "refused", "crashed")) == 26
    operations = {operation["operation"]: operation for operation in data["operations"]}
    assert list(operations) == ["Assign-3", "Assign-6", "Swish-4"]
    (finding,) = operations["Assign-6"]["findings"]
    assert finding["fault"] == "plugin-variable"
    assert finding["is_reproduced"]
    assert "the definition agrees with irrun" in finding["confirmation"]
    assert finding["files"] == [f"conformance/Assign-6/1/{name}" for name in ("model.xml", "model.bin", "inputs.npz")]
    program, *arguments = shlex.split(finding["command"])
    assert program == "irrun"
    code, out, _ = call(capsys, *arguments)
    assert code in (1, 3)
    assert "Subtract" in out or "Result" in out


def test_command_writes_a_page_and_a_table(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--ops", "HSwish-4", "--device", "reference", "-o", "page.html", "--workers", "1"]
    code, out, _ = call(capsys, "conformance", *arguments)
    assert code == 1
    lines = out.splitlines()
    assert lines[0].split() == ["operation", "cases", "agree", "differ", "refused", "crashed", "finding"]
    assert "HSwish of large numbers is infinite" in lines[1]
    assert lines[-1] == "wrote page.html"
    page = (tmp_path / "page.html").read_text()
    assert "reference-h-swish" in page
    assert "irrun compare page/HSwish-4/1/model.xml --against openvino:reference" in page
    assert (tmp_path / "page" / "HSwish-4" / "1" / "model.xml").exists()


def test_page_escapes_texts_and_runs_nothing_but_its_own_script():
    finding = Finding("differ", (3, 4), "<b>case</b>", "<script>x</script>", command="irrun compare 'a & b'")
    result = OperationResult("Gather-8", "movement", findings=[finding])
    result.counts.update(agree=5, differ=2, refused=1)
    result.refusals["a <reason>"] += 1
    page = render_survey(Survey("CPU", "2026.4", "a processor", 0, 61.0, [result]))
    assert "<script>x" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "a &lt;reason&gt;" in page
    assert "irrun compare &#x27;a &amp; b&#x27;" in page
    assert "default-src 'none'" in page
    assert "style=" not in page.partition("</style>")[2]
    assert "8 cases of 1 operations against irrun, seed 0, a processor, 1 min 1 s" in page
    assert "{{" not in page


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--ops", "Gatehr*"], "no operation matches 'Gatehr*'"),
        (["--device", "XPU", "--ops", "Relu"], "OpenVINO has no device 'XPU'; expected reference or CPU"),
        (["-o", "page.txt"], "expected an .html file, found page.txt"),
        (["--cases", "0"], "--cases"),
    ],
)
def test_mistakes_are_one_line(arguments, text, capsys):
    code, out, err = call(capsys, "conformance", *arguments)
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1


def test_command_requires_openvino(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    code, _, err = call(capsys, "conformance", "--ops", "Relu")
    assert code == 2
    assert err == "irrun: this command requires OpenVINO: pip install 'irrun[openvino]'\n"


@pytest.mark.slow
def test_faults_of_the_plugin_are_found(tmp_path):
    survey = run_survey("CPU", ["MaxPool-8", "Mod", "Assign-6", "Gather-8"], folder=tmp_path)
    faults = {finding.fault: finding for finding in survey.findings}
    assert {"plugin-max-pool", "plugin-mod", "plugin-variable", "plugin-gather-empty"} <= faults.keys()
    assert faults["plugin-gather-empty"].status == "crashed" or "sse" in get_instruction_set()
    assert all(finding.is_reproduced and finding.files for finding in survey.findings)


@pytest.mark.slow
def test_cases_of_all_operations_run_on_the_plugin():
    survey = run_survey("CPU", cases=3)
    assert len(survey.operations) > 245
    assert survey.counts["agree"] > 2 * len(survey.operations)
    assert all(finding.fault for finding in survey.findings)
