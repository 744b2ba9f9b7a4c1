"""The script language: grammar, expressions, errors with file and line, budgets, saving and forms."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.genesis import COMMANDS, Distribution, ScriptError, Simulation, evaluate


def simulation(**options):
    return Simulation(rng=np.random.default_rng(0), **options)


def said(script, **options):
    """The lines that a script prints."""
    sim = simulation(**options)
    sim.script(script, name="x.g")
    return sim.output


def test_every_statement_of_the_grammar():
    script = [
        "\n    // a comment, and a line that goes on\n    int n = 3 ",
        " float half = {n / 2}\n    ",
    ][0]
    script += r"""
    float half = n / 2  // is 1.5
    str name = "a \"b\""
    x = 0
    for (i = 0; i < n; i = i + 1)
      if (i == 1 && !0)
        x = x + 10
      else
        x = x + 1
      end
    end
    while (x < 20) /* over
      two lines */
      x = x + 5
    end
    foreach w (one 2 {n})
      echo {w}
    end
    function twice(a)
      return a * 2
    end
    function say-it(what)
      echo said {what}
    end
    echo {x} {half} {name} {twice(4)} \
      more
    say-it {twice(n)}
    call say-it again
    quit
    echo never
    """
    assert said(script) == ["one", "2", "3", '22 1.5 a "b" 8 more', "said 6", "said again"]


def test_a_function_that_quits_ends_the_call_that_led_to_it():
    sim = simulation()
    sim.script("function g\n  quit\nend\nfunction f\n  g\n  echo never\nend")
    assert sim.call("f") == 0
    sim.script("f\necho never")
    assert sim.output == []


def test_a_variable_of_a_function_is_its_own():
    script = "x = 1\nfunction f(y)\n  int z = y\n  x = x + z\nend\nf 4\necho {x}\necho {z}"
    with pytest.raises(
        ScriptError, match=r"^x.g:8: variable 'z' must be set, got none; there are x"
    ):
        said(script)
    assert said(script.rsplit("\n", 1)[0]) == ["5"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 ** 2", 19), ("7 // 2 + 7 % 4", 6), ("-2 < 1 < 3", 1), ("1 > 2 || 2 >= 2", 1),
        ("!(1 == 1)", 0), ("1 != 2", 1), ("'a!b' + \"&&\"", "a!b&&"), ("3 if 0 else 4", 4),
        ("sqrt(16) + min(1, 2)", 5.0), ("(1, 2.5)", (1, 2.5)), ("cos(2 * pi)", 1.0),
        ("normal(1, .5)", Distribution("normal", (1.0, 0.5))),
        ("uniform -1 2e0", Distribution("uniform", (-1.0, 2.0))), ("True + 1", 2),
    ],
)  # fmt: skip
def test_an_expression_has_its_value(text, value):
    assert evaluate(text, {}) == value


@pytest.mark.parametrize(
    "text",
    [
        "().__class__", "__import__('os')", "(lambda: 1)()", "[x for x in (1, 2)]", "open('x')",
        "f'{1}'", "{1: 2}", "x := 3", "abs.__self__", "'a' * 10**9", "'a' % 3", "9**9**9",
        "2**99999", "(1, 2) * 10**9", "1 / 0", "exp(1e9)", "(-8) ** .5", "len(5)", "1 +", "",
        "(" * 300 + "1" + ")" * 300, "-" * 20_000 + "1", "normal(1)", "nothing", "f(1)", "b'x'",
        "*a", "a.b", "a[0]", "print(1)", "eval('1')", "min(1, 2, key=abs)", "1j", "1 << 10**9",
    ],
)  # fmt: skip
def test_what_is_no_arithmetic_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"must|expression"):
        evaluate(text, {"a": 1})


@given(st.text(max_size=60))
def test_no_text_is_anything_but_a_value_or_a_refusal(text):
    try:
        value = evaluate(text, {"x": 1.0})
    except ValueError:
        return
    assert isinstance(value, int | float | str | tuple | Distribution)


@given(st.text(alphabet='abc {}()"\\/*-=<>\n;,.[]#1x if for end else while', max_size=80))
def test_no_script_is_anything_but_run_or_refused(text):
    with suppress(ScriptError):
        simulation(max_statements=200).script(text)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("\ncreate nothing /a", "x.g:2: class must be one of .*, got 'nothing'"),
        ("create neutral /net\ncreate neutral /net/cell\nset /net/cel x 1", r"x.g:3: '/net/cel' must exist, "
         r"got no cel in /net, where there is cell; did you mean cell\?"),
        ("create neutral /a\ncreate neutral /a", "x.g:2: '/a' must be new"),
        ("create neutral /a\nset /a x 1", "x.g:2: neutral has no field 'x'; its fields are none"),
        ("create compartment /c\nset /c V abc", "x.g:2: V of /c must be a number, got 'abc'"),
        ("create compartment /c -n 3\nset /c V (1, 2)", "x.g:2: V of /c must have one or 3 values, got 2"),
        ("create compartment /c -m 3", "x.g:1: option of create must be one of -n .*got -m"),
        ("if (1)\necho", "x.g:1: 'if' must be closed by an `end`"),
        ("echo\nend", "x.g:2: 'end' must follow a block"),
        ("while (1)\necho\nelse", "x.g:3: the block of line 1 must be closed by `end`, got 'else'"),
        ("for (i = 0, 3)\nend", "x.g:1: a for must be"),
        ('echo "a', 'x.g:1: quotes and brackets must end'),
        ("echo )", "x.g:1: brackets must match"),
        ("/* a", r"x.g:1: a comment /\* must end"),
        ("step 1.5", "x.g:1: a whole number must stand here, got 1.5"),
        ("setclock 0", "x.g:1: dt must be > 0 and finite, got dt=0.0"),
        ("copy /a", "x.g:1: the command must be `copy PATH to PATH`, got 1 words"),
        ("nonsense 1", "x.g:1: command or function 'nonsense' must exist"),
        ("function f(a)\nend\nf", "x.g:3: f must be called with a, got 0 values"),
        ("function step(a)\nend", "x.g:1: a function must not have the name of a command"),
        ("\nint if = 3", "x.g:2: a variable must not have the name of a statement, if"),
        ("foreach return (1 2)\nend", "x.g:1: a variable must not have the name of a statement, return"),
        ("pi = 3", "x.g:1: a variable must not have the name of a constant or operator, pi"),
        ("foreach inf (1 2)\nend", "x.g:1: a variable must not have the name of a constant or operator, inf"),
        ("int True = 3", "x.g:1: a variable must not have the name of a constant or operator, True"),
        ("function f(a, pi)\nend", "x.g:1: a variable must not have the name of a constant or operator, pi"),
        ("if (1)\nfunction f\nend\nend", "x.g:2: a function must be defined outside of blocks"),
        ("function f\n f\nend\nf", "x.g:2: functions must be at most 40 calls deep"),
        ("include other.g", "x.g:1: include must name one of"),
        ("xdialog a b", "x.g:1: a form must be open"),
        ("delete /", "x.g:1: the root / must stay"),
        ("create neutral /a\ncreate neutral /a/b\nmove /a to /a/b/c", "x.g:3: an element must move"),
        ("create worker /w -n 2\nset /w[2] drift 1", r"x.g:2: rows must lie within \[0:2\]"),
        ("echo {1 +}", "x.g:1: expression must be arithmetic"),
        ("create neutral 9a", "x.g:1: a name must be a letter"),
        ("x = nan_of", "x.g:1: variable 'nan_of' must be set"),
        ("include a b", "x.g:1: include must be followed by one name, got 2"),
        ("create compartment /c\nset /c C 0\nstep", r"x.g:3: C of /c\[0\] must be > 0, got 0.0"),
        ("create compartment /c -n 2\nset /c[1] Rm 0\nstep", r"x.g:3: Rm of /c\[1\] must be > 0"),
        ("create synapse /s\nset /s tau 0\nstep", r"x.g:3: tau of /s\[0\] must be > 0, got 0.0"),
        ("create compartment /c\nstep\nset /c C 0\nstep", "x.g:4: division by zero"),
        ("create axon /x\ncreate synapse /s -n 100\nconnect /x to /s -delay 1e9\nstep",
         "x.g:4: a delay must be at most 999999 steps of 0.01 to 100 rows of synapse, got 100000000000"),
        ("create axon /x\ncreate synapse /s\nconnect /x to /s -weight nan", "x.g:3: weight must be finite"),
        ("echo\nint n = inf", "x.g:2: cannot convert float infinity to integer"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_and_line_and_what_must_be(script, message):
    with pytest.raises(ScriptError, match=f"^{message}"):
        said(script)


def test_an_included_script_has_its_own_file_and_lines():
    scripts = {"lib.g": "function f(a)\n  echo f {a}\n  oops\nend\n", "me.g": "include me.g"}
    assert said("function g\nend\ninclude connor_stevens.g\nmake_cs /c\nle /c") == ["A K Na"]
    with pytest.raises(ScriptError, match=r"^lib.g:3: command or function 'oops'"):
        said("include lib.g\nf 1", read=scripts.__getitem__)
    with pytest.raises(ScriptError, match=r"^me.g:1: a script must not include itself"):
        said("include me.g", read=scripts.__getitem__)

    def missing(name):
        raise FileNotFoundError(2, "No such file", name)

    with pytest.raises(ScriptError, match=r"^x.g:1: included script 'y.g' must be readable"):
        said("include y.g", read=missing)


def test_a_loop_without_end_is_stopped():
    with pytest.raises(ScriptError, match=r"x.g:1: scripts must execute at most 500 statements"):
        said("while (1)\nend", max_statements=500)


def test_every_command_is_a_method_and_has_a_usage():
    aliases = {"setfield": "set", "addmsg": "link"}
    for name, form in COMMANDS.items():
        assert callable(getattr(Simulation, aliases.get(name, name)))
        assert form.usage.split()[0] == aliases.get(name, name)
        assert form.about.endswith(".")


def test_elements_cannot_be_nested_or_multiplied_until_python_breaks():
    deep = (
        "create neutral a\nce a\nfor (i = 0; i < 3000; i = i + 1)\n  create neutral a\n  ce a\nend"
    )
    with pytest.raises(ScriptError, match=r"^x.g:\d: elements must be less nested"):
        said(deep)
    wide = "create neutral /a\nfor (i = 0; i < 40; i = i + 1)\n  copy /a to /a/b{i}\nend"
    with pytest.raises(ScriptError, match=r"^x.g:3: a copy must have at most 100000 elements"):
        said(wide)


@pytest.mark.refusal
def test_a_field_or_a_class_may_have_the_name_of_an_argument():
    with pytest.raises(ScriptError, match=r"^x.g:2: neutral has no field 'path'"):
        said("create neutral /a\nset /a path 1")
    with pytest.raises(ScriptError, match=r"^x.g:1: class must be one of .*, got 'dt'"):
        said("setclock dt 2")


WHOLE = """
include hodgkin_huxley.g
setclock .02
setclock synapse 2
create neutral /net
make_hh /net/a
create axon /net/a/axon
link /net/a to /net/a/axon
create compartment /net/b -n 3
set /net/b Em (-60, -61, -62.5)
create synapse /net/b/s -n 3
set /net/b/s[1] tau 5.5
link /net/b/s to /net/b
connect /net/a/axon to /net/b/s -weight .25 -delay 2
set /net/a inject 12
set /net/a/Na x_alpha (-4.1, -0.1, -1, 40, -10)
graph /net/b[1] V -every 5
xform "a form"
xdialog current set-current -default 12
xtoggle on set-on
xbutton go "step 5"
function set-current(i)
  set /net/a inject {i}
end
function set-on(o)
  set /net/a inject {o * 10}
end
ce /net
"""


def test_a_saved_simulation_is_made_anew_by_its_script():
    sim = simulation()
    sim.script(WHOLE)
    text = sim.save()
    again = Simulation.load(text, rng=np.random.default_rng(0))
    assert again.save() == text
    for one in (sim, again):
        one.step(500)
    assert np.array_equal(sim.data("/net/b[1]", "V").value, again.data("/net/b[1]", "V").value)
    assert np.array_equal(sim.spikes("/net/a/axon").time, again.spikes("/net/a/axon").time)
    assert len(sim.spikes("/net/a/axon").time) > 0


def test_a_saved_link_keeps_the_one_message_that_it_was_made_for():
    sim = simulation()
    sim.script("create compartment /a\ncreate axon /a/x\nlink /a to /a/x -as VOLTAGE")
    assert Simulation.load(sim.save(), rng=np.random.default_rng(0)).save() == sim.save()


def test_a_saved_function_finds_the_variables_that_it_asks_for():
    sim = simulation()
    sim.script("n = 3\nfunction make\n  create worker /w -n {n}\nend\nxform f\nxbutton go make")
    again = Simulation.load(sim.save(), rng=np.random.default_rng(0))
    again.forms["f"]["go"].press()
    assert len(again.get("/w", "drift")) == 3
    assert again.save().startswith(sim.save().partition("create")[0])


@pytest.mark.parametrize(
    "value",
    [
        "-3", "0.1", "1e300", "inf", "-inf", "(1, 2)", "(1,)", '("a", inf)', "normal(0, .5)", "()",
        '"a // b"', '"say \\"x\\" {n}"', '"p\\\\"', '"a\\nb"', "'\N{GREEK SMALL LETTER MU} \u2028'", '""',
    ],
)  # fmt: skip
def test_a_saved_variable_has_its_value(value):
    sim = simulation()
    sim.script(f"x = {value}")
    again = Simulation.load(sim.save(), rng=np.random.default_rng(0))
    assert again._interpreter.variables == sim._interpreter.variables
    assert again.save() == sim.save()


def test_a_saved_variable_may_be_no_number_and_an_array_is_left_out():
    sim = simulation()
    sim.script('create worker /w -n 3\nx = inf - inf\ny = get("/w", "drift")\nz = (1, (y, 2))')
    again = Simulation.load(sim.save(), rng=np.random.default_rng(0))
    assert list(again._interpreter.variables) == ["x"]
    assert np.isnan(again._interpreter.variables["x"])


def test_saved_rows_may_be_infinite_or_without_a_value():
    sim = simulation()
    sim.script("create worker /w -n 4\nset /w deadline {inf}\nset /w[0:2] drift (1, inf)")
    sim.script("set /w[3] drift 2\nset /w[2] bound 3")
    again = Simulation.load(sim.save(), rng=np.random.default_rng(0))
    for field in ("deadline", "drift", "bound"):
        np.testing.assert_array_equal(again.get("/w", field), sim.get("/w", field))
    assert said("echo limit {inf} {-inf}") == ["limit inf -inf"]


@pytest.mark.parametrize(
    "text",
    ["a\\nb", "a\nb", 'say "x"', "p\\", "set {i}", "} {", "{2}", "a\\nb{", "// x", "to", "(1, 2)"],
)
def test_a_saved_text_is_read_as_it_was(text):
    sim = simulation()
    sim.xform(text)
    sim.xdialog(text, f"c{text}", default=text)
    again = Simulation.load(sim.save(), rng=np.random.default_rng(0))
    (widget,) = again.forms[text].widgets.values()
    assert (widget.label, widget.command, widget.value) == (text, f"c{text}", text)


def test_many_saved_rows_are_read_as_they_were():
    """A line holds two million characters at most."""
    sim = simulation()
    sim.script("create worker /w -n 130_000\nset /w drift {normal 1.6 .3}".replace("_", ""))
    again = Simulation.load(sim.save(), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(again.get("/w", "drift"), sim.get("/w", "drift"))


@pytest.mark.parametrize(
    "text", ['say "hi"', "a b", "to", "a\nb", "a\\nb", "a // b", "//c", "x\\ y", "a(b", '"', ""]
)
def test_a_form_issues_the_text_that_it_was_given(text):
    sim = simulation()
    sim.script("function f(a)\n  echo {a}\nend")
    sim.xform("form")
    sim.xdialog("d", "f")
    sim.forms["form"]["d"].set(text)
    assert sim.output == [text]


def test_a_form_gives_a_built_in_command_a_text_that_looks_like_an_option():
    sim = simulation()
    sim.xform("form")
    sim.xdialog("d", "xform")
    sim.forms["form"]["d"].set("-x")
    assert "-x" in sim.forms


def test_a_toggle_takes_the_value_that_it_shows():
    sim = simulation()
    sim.script("create compartment /c\nxform form\nxtoggle t 'set /c euler'".replace("'", '"'))
    toggle = sim.forms["form"]["t"]
    for value, wanted in ((1, 1), ("0", 0), ("1", 1), (0, 0), ("", 0)):
        toggle.set(value)
        assert (sim.get("/c", "euler"), toggle.value) == (wanted, str(wanted))


def test_a_form_issues_numbers_lists_and_values():
    sim = simulation()
    sim.script("n = 4\nfunction f(a)\n  echo {a}\nend")
    sim.xform("form")
    sim.xdialog("d", "f")
    for value in (-5, 2.5, "(1,2)", "{n*2}", "x{n}"):
        sim.forms["form"]["d"].set(value)
    assert sim.output == ["-5", "2.5", "(1, 2)", "8", "x4"]


def test_a_form_issues_commands_and_shows_what_it_holds():
    sim = simulation()
    sim.script(WHOLE)
    form = sim.forms["a form"]
    form["current"].set(7.5)
    assert sim.get("/net/a", "inject") == 7.5
    form["on"].set(True)
    assert sim.get("/net/a", "inject") == 10
    form["go"].press()
    assert sim.time == pytest.approx(0.1)
    shown = "a form\n  current [7.5] set-current\n  (x) on set-on\n  <go> step 5"
    assert form.text() == shown
    sim.xform("<b>")
    sim.xdialog('"', "<i>", default="&")
    assert "<b>" not in sim.forms["<b>"].html()
    assert "&lt;b&gt;" in sim.forms["<b>"].html()
    assert "checked" in form.html()
    with pytest.raises(
        ValueError, match="form a form has no widget 'x'; its widgets are current, on"
    ):
        form["x"]


def test_a_field_may_be_drawn_for_every_row():
    sim = simulation()
    sim.script("create worker /pool -n 2000\nset /pool drift {normal 1.6 .3} t0 {uniform(.1, .2)}")
    drift = sim.get("/pool", "drift")
    assert abs(drift.mean() - 1.6) < 0.03
    assert abs(drift.std() - 0.3) < 0.03
    assert 0.1 <= sim.get("/pool", "t0").min() <= sim.get("/pool", "t0").max() <= 0.2


def test_commands_print_what_they_are_asked():
    lines = said("""
    create neutral /net
    create compartment /net/c
    ce net
    pwe
    le
    get c C
    show c V
    check
    setfield c C 2 inject .5
    get c capacitance
    show c
    """)
    assert lines[:5] == [
        "/net",
        "c",
        "1",
        "-65",
        "/net/c takes AXIAL, RAXIAL, CHANNEL and is not linked",
    ]
    assert lines[5] == "2"
    assert lines[6].startswith("/net/c (compartment, 1 rows)\n  C = 2.0\n")


@pytest.mark.parametrize(
    ("drawn", "sentence"),
    [
        ("normal 0 -1", r"normal must have parameters .* got \(0.0, -1.0\): scale < 0"),
        ("integers 2 0", r"integers must have parameters .* got \(2.0, 0.0\): low >= high"),
        ("integers(0, inf)", r"integers must have parameters that it can be drawn with"),
        ("integers .5 2.7", r"integers must have parameters .* got \(0.5, 2.7\): 0.5 is not whole"),
        ("normal(1)", "normal must have 2 parameters, got 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(drawn, sentence):
    with pytest.raises(ScriptError, match=f"^script:2: .*{sentence}"):
        simulation().script(f"create worker /w\nset /w drift {{{drawn}}}")
    with pytest.raises(ValueError, match="name must be one of normal, .*, got 'cauchy'"):
        Distribution("cauchy", (0.0, 1.0))
