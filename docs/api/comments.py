"""Turns the comments of a header into ones that Doxygen reads. Doxyfile names it as the filter.

A block of // comments that stands directly over a declaration becomes ///, one behind a declaration
becomes ///<. A block with an empty line below is about the file and stays as it is. What Doxygen or
Markdown would take for a command is escaped, so that headers stay plain text.
"""

import re
import sys

BLOCK = re.compile(r"(\s*)//(?!/)(.*)")
# Behind code; a // in a string is none.
TRAILING = re.compile(r'((?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*\S\s+)//(?!/)(.*)')


def escaped(comment):
    """The comment with every character that means something to Doxygen escaped, but for what
    stands in backticks."""
    pieces = re.split(r"(`[^`]*`)", comment)
    return "".join(piece if i % 2 else re.sub(r"([\\@<>#&*|~%\[\]])", r"\\\1", piece)
                   for i, piece in enumerate(pieces))


def documented(lines):
    """The lines of a header, as Doxygen is to see them."""
    column = None  # of the comment behind a declaration that the next line may go on with
    for number, line in enumerate(lines):
        block, trailing = BLOCK.fullmatch(line), TRAILING.fullmatch(line)
        if block and column == len(block[1]):
            yield f"{block[1]}///< {escaped(block[2]).strip()}"
        elif block:
            column = None
            yield f"{block[1]}///{escaped(block[2])}" if declares(lines[number:]) else line
        elif trailing:
            column = len(trailing[1])
            yield f"{trailing[1]}///<{escaped(trailing[2])}"
        else:
            column = None
            yield line


def declares(lines):
    """Whether the block of comments that begins here stands directly over code."""
    after = next((line for line in lines if not BLOCK.fullmatch(line)), "")
    return bool(after.strip()) and not after.startswith(("#", "}", "namespace"))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(documented(header.read().splitlines())))
