"""Runs Ryu and os-ken applications in a zone of Rosemary.

`names/` holds the framework modules that applications import as `ryu.*` and `os_ken.*`. Wire formats and packet
libraries come from the package os-ken. `runner.py` is the entry of a zone, `check.py` inspects an application beforehand.
"""

__version__ = "0.1.0"
