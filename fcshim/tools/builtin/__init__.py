"""Built-in tools: files, commands, the web, skills, notifications.

A group of tools is a class; its constructor takes the operator's settings, its `tools()` returns the tools.
"""

from fcshim.tools.builtin.control import Control
from fcshim.tools.builtin.files import Files
from fcshim.tools.builtin.search import Search
from fcshim.tools.builtin.shell import Shell
from fcshim.tools.builtin.skills import Skills
from fcshim.tools.builtin.web import Web
from fcshim.tools.builtin.websearch import SearchService
from fcshim.tools.builtin.workspace import Workspace

__all__ = ["Control", "Files", "Search", "SearchService", "Shell", "Skills", "Web", "Workspace"]
