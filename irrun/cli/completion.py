"""Shell completion: the scripts for bash, zsh and fish, and irrun's answers to them.

click's own scripts drop commands where files are possible too, as in the first word after `irrun`, and do not complete
values after `=`. These scripts pass the line up to the cursor. irrun answers with the items, and the shell adds files.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

__all__ = ["BashCompletion", "FishCompletion", "ZshCompletion"]

_CLAUSE_END = re.compile(r"[.;] ")

# The answer: the number of characters to cut from the paths of files, the text to put before them, and the items.
BASH_SCRIPT = r"""_irrun_completion() {
    local cut before item path paths suffix
    COMPREPLY=()
    {
        read -r cut
        IFS= read -r before
        while IFS= read -r item; do
            if [[ $item == plain,* ]]; then
                COMPREPLY+=("${item#plain,}")
                continue
            fi
            suffix=${item%%,*} suffix=${suffix#file} item=${item#*,} paths=
            if [[ $item != *\$* ]]; then
                paths=${suffix:+$(compgen -f -X "!*$suffix" -- "$item"; compgen -d -- "$item")}
                paths=${paths:-$(compgen -f -- "$item")}
            fi
            if [[ $paths && ${#COMPREPLY[@]} == 0 ]]; then
                compopt -o filenames 2>/dev/null
            fi
            local is_mixed=${#COMPREPLY[@]}
            while [[ $paths ]] && IFS= read -r path; do
                if (( is_mixed )); then
                    [[ -d $path ]] && path+=/
                    printf -v path %q "$path"
                fi
                COMPREPLY+=("$before${path:$cut}")
            done <<< "$paths"
            if (( is_mixed && ${#COMPREPLY[@]} == 1 )) && [[ ${COMPREPLY[0]} == */ ]]; then
                compopt -o nospace 2>/dev/null
            fi
            if (( ${#COMPREPLY[@]} == 0 )); then
                compopt -o default 2>/dev/null
            fi
        done
    } < <(env _IRRUN_COMPLETE=bash_complete COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" "$1" 2>/dev/null)
}

complete -o nosort -F _irrun_completion irrun 2>/dev/null || complete -F _irrun_completion irrun
"""

# The answer: the number of texts that end in "=" before the values, and the items, with help after a tab.
ZSH_SCRIPT = r"""#compdef irrun

_irrun_completion() {
    local item value
    local -a answer plain described patterns
    local line="${(j: :)words[1,CURRENT-1]} ${QIPREFIX}${PREFIX}"
    answer=("${(@f)$(env _IRRUN_COMPLETE=zsh_complete COMP_LINE="$line" ${(Q)~words[1]} 2>/dev/null)}")
    (( ${answer[1]:-0} )) && compset -P $answer[1] '*='
    for item in "${(@)answer[2,-1]}"; do
        if [[ $item == file* ]]; then
            item=${${item%%,*}#file}
            patterns+=("${${item/#\//(-\/)}/#/*}")
            continue
        fi
        item=${item#plain,} value=${item%%$'\t'*}
        if [[ $item == *$'\t'* ]]; then
            described+=("${value//:/\\:}:${item#*$'\t'}")
        elif [[ $item ]]; then
            plain+=("$value")
        fi
    done
    (( $#described )) && _describe -V irrun described -U -i "$IPREFIX"
    (( $#plain )) && compadd -U -V irrun -i "$IPREFIX" -a plain
    (( $#patterns )) && _files -g "$patterns[1]"
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _irrun_completion "$@"
else
    compdef _irrun_completion irrun
fi
"""

# The answer: the items as whole words, with help after a tab.
FISH_SCRIPT = r"""function _irrun_completion
    set -l line (commandline -cp)
    set -l token (commandline -ct)
    for item in (env _IRRUN_COMPLETE=fish_complete COMP_LINE="$line" irrun 2>/dev/null)
        set -l fields (string split -m 1 , -- $item)
        if test "$fields[1]" = plain
            echo $fields[2]
            continue
        end
        set -l paths (complete -C "__irrun_files $token" | string replace -r '\t.*' '')
        set -l suffix (string escape --style=regex -- (string sub -s 5 -- $fields[1]))
        set -l chosen (string match -r -- ".*(?:$suffix|/)\$" $paths)
        test -n "$chosen"; or set chosen $paths
        printf '%s\n' $chosen
    end
end

complete --no-files --keep-order --command irrun --arguments '(_irrun_completion)'
"""


class _Completion(ShellComplete):
    """Completion of the line up to the cursor, which the shell's script provides."""

    source_template = ""

    def source(self) -> str:
        """Return the script that the shell runs."""
        return self.source_template

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the arguments before the word at the cursor, and the part of this word before the cursor."""
        words = split_arg_string(os.environ["COMP_LINE"] + "|")  # the cursor, so that an empty word is not lost
        while len(words) > 1 and "=" in words[0]:  # variables before the command
            del words[0]
        return words[1:-1], words[-1].removesuffix("|")

    def complete(self) -> str:
        """Return the answer to the script; an empty one if the line is wrong."""
        try:
            args, word = self.get_completion_args()
            items = self.get_completions(args, word)
        except Exception:  # a message would appear in the middle of the line
            return ""
        before = ""
        if word.startswith("-") and "=" in word:
            before = word[: word.index("=") + 1]
        if items and all(item.type != "plain" for item in items):
            items, name = _split_names(items)
            before += name
        return "\n".join(self.format_answer(items, before, word))

    def format_answer(self, items: list[CompletionItem[Any]], before: str, word: str) -> list[str]:
        """Return the lines of the answer.

        Args:
            items: The completions.
            before: The part of the word before the completed value.
            word: The word up to the cursor.
        """
        raise NotImplementedError


class BashCompletion(_Completion):
    """Completion in bash, which replaces only what follows the last `=` or `:` of a word."""

    name = "bash"
    source_template = BASH_SCRIPT

    def format_answer(self, items: list[CompletionItem[Any]], before: str, word: str) -> list[str]:
        """Return the lines of the answer; see `_Completion.format_answer`."""
        replaced = os.environ.get("COMP_WORD", "")
        if not word.endswith(replaced):
            replaced = " ".join(split_arg_string(replaced))
        kept = len(word) - len(replaced) if word.endswith(replaced) else 0
        lines = [str(max(kept - len(before), 0)), before[kept:]]
        for item in items:
            value = (before + item.value)[kept:] if item.type == "plain" else item.value
            lines.append(f"{_format_type(item)},{value}")
        return lines


class ZshCompletion(_Completion):
    """Completion in zsh."""

    name = "zsh"
    source_template = ZSH_SCRIPT

    def format_answer(self, items: list[CompletionItem[Any]], before: str, word: str) -> list[str]:
        """Return the lines of the answer; see `_Completion.format_answer`."""
        return [str(before.count("=")), *(f"{_format_type(item)},{item.value}{_format_help(item)}" for item in items)]


class FishCompletion(_Completion):
    """Completion in fish."""

    name = "fish"
    source_template = FISH_SCRIPT

    def format_answer(self, items: list[CompletionItem[Any]], before: str, word: str) -> list[str]:
        """Return the lines of the answer; see `_Completion.format_answer`."""
        return [f"{_format_type(item)},{before}{item.value}{_format_help(item)}" for item in items]


def _split_names(items: list[CompletionItem[Any]]) -> tuple[list[CompletionItem[Any]], str]:
    """Strip the input name from items for files, as in x=x.npy; return the items and the name."""
    name, separator, path = items[0].value.partition("=")
    if not separator or glob.glob(glob.escape(items[0].value) + "*"):
        return items, ""
    return [CompletionItem(path, type=item.type, suffix=item.suffix) for item in items], name + separator


def _format_type(item: CompletionItem[Any]) -> str:
    """Return "plain", "file", "file.xml" for files with a suffix, or "file/" for folders."""
    return "file/" if item.type == "dir" else f"{item.type}{item.suffix or ''}"


def _format_help(item: CompletionItem[Any]) -> str:
    """Return a tab and the first clause of the help."""
    return "\t" + _CLAUSE_END.split(" ".join(item.help.split()))[0] if item.help else ""


for _shell in (BashCompletion, ZshCompletion, FishCompletion):
    add_completion_class(_shell)
