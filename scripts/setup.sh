#!/usr/bin/env bash
# Sees to it that what the build needs is here: a Rust toolchain, a C compiler and linker with the C++ library, LLVM 22.
# Installs LLVM (and the compiler) from Debian when it may; otherwise says in a line or two what is missing.
# Changes nothing when everything is there. Run by `make tpch` and `make test`.
set -euo pipefail

llvm_major=22
llvm_package=llvm-$llvm_major-dev
prefix_variable=LLVM_SYS_221_PREFIX # what the llvm-sys crate of LLVM 22.1 reads

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

manual_help=(
    "To use an LLVM $llvm_major that is already somewhere, set $prefix_variable to the folder that holds bin/llvm-config,"
    "for example: $prefix_variable=/opt/llvm-$llvm_major make test (its libLLVM must be found by the loader: LD_LIBRARY_PATH)."
)

# The version of the LLVM that the build would find, or nothing.
llvm_version() {
    local folder=""
    if [ -n "${!prefix_variable:-}" ]; then folder="${!prefix_variable}/bin/"; fi
    local name
    for name in "llvm-config-$llvm_major" llvm-config; do
        if command -v "$folder$name" >/dev/null 2>&1; then
            "$folder$name" --version
            return
        fi
    done
}

llvm_is_here() {
    [[ "$(llvm_version)" == "$llvm_major."* ]]
}

install() {
    local packages=("$@")
    command -v apt-get >/dev/null 2>&1 ||
        fail "missing: ${packages[*]}, and there is no apt-get here to install it with." "${manual_help[@]}"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 ||
            fail "missing: ${packages[*]}. Installing it needs root: run 'apt-get install ${packages[*]}' as root, then again this." \
                "${manual_help[@]}"
        as_root=(sudo)
        # Without a terminal nobody can type a password: fail at once instead of waiting for one.
        if [ ! -t 0 ]; then as_root=(sudo -n); fi
    fi
    echo "setup: installing ${packages[*]} with apt-get"
    # One package source that does not answer must not keep the others from being read.
    "${as_root[@]}" apt-get update -qq || echo "setup: apt-get update had errors; going on with what it read" >&2
    local options=() parts=""
    if ! apt-cache show "$llvm_package" >/dev/null 2>&1; then add_security_source; fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get "${options[@]}" install -y -qq --no-install-recommends "${packages[@]}" ||
        fail "apt-get could not install ${packages[*]}." "${manual_help[@]}"
    if [ -n "$parts" ]; then rm -rf "$parts"; fi
}

# LLVM 22 came to Debian 12 as a security update. Where apt does not know that source (a bare debootstrap), it is read for
# this one call: sets `options` and `parts` of the caller and leaves the machine's own list of sources as it is.
add_security_source() {
    local ID="" VERSION_CODENAME=""
    # shellcheck disable=SC1091
    . /etc/os-release
    [ "$ID" = debian ] || return 0
    parts=$(mktemp -d)
    chmod 755 "$parts"
    echo "deb http://deb.debian.org/debian-security $VERSION_CODENAME-security main" >"$parts/security.list"
    cp -r /etc/apt/sources.list.d/. "$parts" 2>/dev/null || true
    options=(-o "Dir::Etc::SourceParts=$parts")
    echo "setup: reading Debian's security source as well"
    "${as_root[@]}" apt-get "${options[@]}" update -qq ||
        echo "setup: apt-get update had errors; going on with what it read" >&2
}

command -v cargo >/dev/null 2>&1 ||
    fail "cargo is missing. Install Rust (rust-toolchain.toml names the version), for example with rustup."

missing=()
if ! command -v cc >/dev/null 2>&1; then
    missing+=(g++)
elif [[ "$(cc -print-file-name=libstdc++.so)" != /* ]]; then
    # LLVM is written in C++: programs that use it are linked with the C++ library.
    missing+=(g++)
fi
if ! llvm_is_here; then
    if [ -n "${!prefix_variable:-}" ]; then
        found=$(llvm_version)
        fail "$prefix_variable is ${!prefix_variable}, where there is no LLVM $llvm_major (found: ${found:-no bin/llvm-config})."
    fi
    missing+=("$llvm_package")
fi
if [ ${#missing[@]} != 0 ]; then
    install "${missing[@]}"
    llvm_is_here || fail "$llvm_package is installed, but llvm-config-$llvm_major is not on the PATH." "${manual_help[@]}"
fi
echo "setup: LLVM $(llvm_version), $(cargo --version)"
