"""The inspection of an application before it is started."""

from rosemary_ryu.check import check, main


def found(source):
    return [(it.line, it.what) for it in check(source, "app.py")]


def test_supported_app_has_no_findings():
    source = "from ryu.base import app_manager\nfrom ryu.ofproto import ofproto_v1_3\n"
    assert found(source + "class A:\n    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]\n") == []


def test_modules_without_a_network_are_found():
    assert found("import subprocess\nfrom ryu.services.protocols.bgp import bgpspeaker\n") == [
        (1, "subprocess"),
        (2, "ryu.services.protocols.bgp"),
    ]


def test_ovsdb_is_found_in_either_form():
    assert found("from ryu.lib.ovs import bridge") == [(1, "ryu.lib.ovs")]
    assert found("from ryu.lib import ovs") == [(1, "ryu.lib.ovs")]


def test_only_unsupported_versions_are_found():
    both = "class A:\n    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION, ofproto_v1_5.OFP_VERSION]\n"
    assert found(both) == []
    alone = "class A:\n    OFP_VERSIONS = [ofproto_v1_5.OFP_VERSION]\n"
    assert found(alone) == [(2, "OpenFlow 1.5")]


def test_calls_and_actions_are_found():
    assert found("os.system('ls')\nx = parser.NXActionLearn(1)\n") == [(1, "os.system"), (2, "NXActionLearn")]


def test_exit_codes_say_what_was_found(tmp_path, capsys):
    good, bad, broken = tmp_path / "good.py", tmp_path / "bad.py", tmp_path / "broken.py"
    good.write_text("import ryu\n")
    bad.write_text("import subprocess\n")
    broken.write_text("print 'Python 2'\n")
    assert main([str(good)]) == 0
    assert main([str(bad)]) == 1
    assert main([str(broken)]) == 1
    assert main([str(tmp_path / "missing.py")]) == 2
    assert main([]) == 2
