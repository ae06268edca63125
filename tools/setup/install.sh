# Fill .venv: requirements by extra, and the package itself, each with a stamp of what went in.

setup_log=.cache/setup.log

# Run a command with its output in the log; show the log when it fails.
logged() {
    if ! "$@" >"$setup_log" 2>&1 </dev/null; then
        cat "$setup_log" >&2
        echo "warren: set-up failed: $*" >&2
        exit 1
    fi
}

# A virtual environment that was moved, or whose interpreter went away, is made again.
venv_usable() {
    [[ -f .venv/stamp.place && $(<.venv/stamp.place) == "$PWD ${PYTHON:-}" ]] \
        && [[ -x .venv/bin/python ]] && .venv/bin/python -c '' 2>/dev/null
}

venv_create() {
    echo "warren: creating .venv with $1" >&2
    logged "$1" -m venv --clear .venv
    echo "$PWD ${PYTHON:-}" >.venv/stamp.place
}

requirements_ready() {
    local stamp=.venv/stamp.requirements-$1 have="" want
    want=$(sha256sum <pyproject.toml)
    [[ -f $stamp ]] && have=$(<"$stamp")
    [[ $have == "$want" ]] && return
    echo "warren: installing what '$1' needs" >&2
    rm -f "$stamp"
    .venv/bin/python tools/setup/requirements.py "$1" >.cache/requirements.txt
    logged .venv/bin/python -m pip install --disable-pip-version-check -r .cache/requirements.txt
    echo "$want" >"$stamp"
}

package_files() {
    find src pyproject.toml setup.py build_ext.py LICENSE README.md \
        -name __pycache__ -prune -o -name '*.egg-info' -prune -o -type f "$@"
}

# Line one of the stamp: names, sizes and times. Line two: contents, looked at when line one differs,
# as after a checkout that came back to the same files. Line three: compiled or interpreted.
package_ready() {
    local stamp=.venv/stamp.package have=() quick contents form=compiled
    compile_wanted || form=interpreted
    quick=$(package_files -printf '%p %s %T@\n' | LC_ALL=C sort | sha256sum)
    [[ -f $stamp ]] && mapfile -t have <"$stamp"
    # The compiled form holds the interpreted one, so it serves both wishes.
    if [[ ${#have[@]} == 3 && (${have[2]} == "$form" || ${have[2]} == compiled) ]]; then
        [[ ${have[0]} == "$quick" ]] && return
        form=${have[2]}
        contents=$(package_contents)
        if [[ ${have[1]} == "$contents" ]]; then
            printf '%s\n' "$quick" "$contents" "$form" >"$stamp"
            return
        fi
    fi
    package_install "$form"
    printf '%s\n' "$quick" "${contents:-$(package_contents)}" "$form" >"$stamp"
}

package_contents() {
    package_files -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
}

package_install() {
    local seconds=$SECONDS
    echo "warren: building the $1 package" >&2
    rm -f .venv/stamp.package
    if [[ $1 == compiled ]]; then
        compiler_ready
        logged env -u WARREN_PURE WARREN_REQUIRE_COMPILED=1 \
            .venv/bin/python -m pip install --disable-pip-version-check --no-deps --force-reinstall .
    else
        logged env -u WARREN_REQUIRE_COMPILED WARREN_PURE=1 \
            .venv/bin/python -m pip install --disable-pip-version-check --no-deps --force-reinstall .
    fi
    echo "warren: built and installed in $((SECONDS - seconds)) s" >&2
}

# The environment may have been made without a compiler (WARREN_PURE=1) and now need one.
compiler_ready() {
    local missing
    mapfile -t missing < <(packages_missing "$(python_describe .venv/bin/python)")
    if ((${#missing[@]})); then
        packages_install "${missing[@]}"
    fi
}
