# Find a Python that can build and run the broker, and the system packages it lacks.
# Sets `python` to the interpreter's real path (behind a pyenv shim, say), or exits with advice.

# Prints "path<TAB>version<TAB>missing parts" of an interpreter, nothing when it does not suit.
python_describe() {
    "$1" - 2>/dev/null <<'PY'
import os, sys, sysconfig
if not (3, 11) <= sys.version_info[:2] <= (3, 13) or sys.implementation.name != "cpython":
    sys.exit(1)
missing = []
try:
    import ensurepip, venv
except ImportError:
    missing.append("venv")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    missing.append("headers")
print(sys.executable, "%d.%d" % sys.version_info[:2], " ".join(missing), sep="\t")
PY
}

# The first interpreter that lacks nothing; failing that, the first that suits.
python_choose() {
    local candidate line best=""
    local candidates=(python3 python3.11 python3.12 python3.13 /usr/bin/python3)
    [[ -n ${PYTHON:-} ]] && candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        line=$(python_describe "$candidate") || continue
        [[ -z $(cut -f3 <<<"$line") ]] && { echo "$line"; return; }
        best=${best:-$line}
    done
    echo "$best"
}

# Debian's names for what the chosen interpreter and the machine lack, one per line.
packages_missing() {
    local line=$1 version path lacks
    if [[ -z $line ]]; then
        printf '%s\n' python3 python3-venv
        compile_wanted && echo python3-dev
    else
        IFS=$'\t' read -r path version lacks <<<"$line"
        [[ $lacks == *venv* ]] && echo "python$version-venv"
        [[ $lacks == *headers* ]] && compile_wanted && echo "python$version-dev"
    fi
    if compile_wanted && ! command -v gcc >/dev/null; then
        printf '%s\n' gcc libc6-dev
    fi
    # Debian's pip trusts the system's certificates only.
    [[ -e /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
}

compile_wanted() { [[ -z ${WARREN_PURE:-} || ${WARREN_PURE} == 0 ]]; }

find_python() {
    local line missing
    line=$(python_choose)
    if [[ -z $line && -n ${PYTHON:-} ]]; then
        echo "warren: PYTHON=$PYTHON is not a CPython 3.11, 3.12 or 3.13 that runs" >&2
        exit 1
    fi
    mapfile -t missing < <(packages_missing "$line")
    if ((${#missing[@]})); then
        packages_install "${missing[@]}"
        line=$(python_choose)
    fi
    if [[ -z $line ]]; then
        echo "warren: no Python 3.11, 3.12 or 3.13 found; set PYTHON to one" >&2
        exit 1
    fi
    python=$(cut -f1 <<<"$line")
}

packages_install() {
    if ! command -v apt-get >/dev/null; then
        echo "warren: missing on this machine (names as in Debian): $*" >&2
        exit 1
    fi
    if ((EUID != 0)); then
        {
            echo "warren: some system packages are missing. Install them with:"
            echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
            echo "Without a C compiler, WARREN_PURE=1 runs the slower, interpreted form."
        } >&2
        exit 1
    fi
    echo "warren: installing system packages: $*" >&2
    export DEBIAN_FRONTEND=noninteractive
    logged apt-get update
    logged apt-get install -y --no-install-recommends "$@"
}
