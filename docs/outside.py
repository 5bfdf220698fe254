"""Links that leave docs/ are relative, for a forge. On the site they lead to the forge.

An extension of Python-Markdown that zensical.toml names. `python -m zensical build` finds it, from
the folder of the project.

>>> import markdown
>>> to_code = makeExtension(home="https://forge.org/")
>>> markdown.markdown("[code](../act_prm.py), [logs](logs.md)", extensions=[to_code])
'<p><a href="https://forge.org/act_prm.py">code</a>, <a href="logs.md">logs</a></p>'
"""

from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor


class Outside(Treeprocessor):
    def __init__(self, md: Markdown, home: str):
        super().__init__(md)
        self.home = home

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            target = link.get("href", "")
            if target.startswith("../"):
                link.set("href", self.home + target.removeprefix("../"))


class makeExtension(Extension):  # Markdown asks a module for this name
    def __init__(self, **config):
        self.config = {"home": ["", "the address of the project's files"]}
        super().__init__(**config)

    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(Outside(md, self.getConfig("home")), "outside", 0)
