"""Scripts that come with the package, for `include`: published cells.

>>> sorted(LIBRARY)
['connor_stevens.g', 'hodgkin_huxley.g']
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["LIBRARY"]

HODGKIN_HUXLEY = """\
// A cell body with the channels of Hodgkin and Huxley (1952), at rest at -65 mV.
function make_hh(path)
  create active_compartment {path}
  create Na {path}/Na
  create K {path}/K
  link {path}/Na to {path}
  link {path}/K to {path}
end
"""

CONNOR_STEVENS = """\
// The cell of Connor and Stevens (1971) with its A current, which allows slow firing.
function make_cs(path)
  create active_compartment {path}
  set {path} Em -17 Rm {1 / 0.3}
  create Na_CS {path}/Na
  create K_CS {path}/K
  create channel_A {path}/A
  link {path}/Na to {path}
  link {path}/K to {path}
  link {path}/A to {path}
end
"""

LIBRARY: Mapping[str, str] = {
    "hodgkin_huxley.g": HODGKIN_HUXLEY,
    "connor_stevens.g": CONNOR_STEVENS,
}
