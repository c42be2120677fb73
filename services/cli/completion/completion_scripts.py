"""Scripts that teach a shell to complete a program: each asks the program itself what may come next."""

from __future__ import annotations

from typing import Final

_BASH: Final = r"""# Completion of PROGRAM for bash. Load it with: source <(PROGRAM completion bash)
_FUNCTION_complete() {
    local line="${COMP_LINE:0:COMP_POINT}" out value
    local -a args
    read -ra args <<< "$line"
    [[ "$line" == *[[:space:]] ]] && args+=("")
    local cur="${args[${#args[@]}-1]}"
    COMPREPLY=()
    while IFS= read -r out; do
        value="${out%%$'\t'*}"
        case "$value" in
            :0) [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default 2>/dev/null ;;
            :*) ;;
            "$cur"*)
                # The shell takes what is before an equals sign for a word of its own.
                [[ "$cur" == *=* ]] && value="${value#*=}"
                COMPREPLY+=("$value")
                ;;
        esac
    done < <(PROGRAM __complete "${args[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=/] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _FUNCTION_complete PROGRAM
"""
_ZSH: Final = r"""#compdef PROGRAM
# Completion of PROGRAM for zsh. Load it with: source <(PROGRAM completion zsh)
_FUNCTION() {
    local -a values
    local line
    for line in "${(@f)$(PROGRAM __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -z "$line" || "$line" == :* ]] && continue
        if [[ "$line" == *$'\t'* ]]; then
            values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            values+=("${line//:/\\:}")
        fi
    done
    if (( ${#values} )); then
        _describe 'PROGRAM' values
    else
        _files
    fi
}
compdef _FUNCTION PROGRAM
"""
_FISH: Final = r"""# Completion of PROGRAM for fish. Load it with: PROGRAM completion fish | source
function __FUNCTION_complete
    set -l words (commandline -opc) (commandline -ct)
    PROGRAM __complete $words[2..-1] 2>/dev/null | string match -v -r '^:'
end
complete -c PROGRAM -a '(__FUNCTION_complete)'
"""
SHELLS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script for each shell, before a program's name is put in."""


def script_for(shell: str, program: str) -> str:
    """The script of a program for a shell; raises KeyError for an unknown one."""
    return SHELLS[shell].replace("FUNCTION", program.replace("-", "_")).replace("PROGRAM", program)
