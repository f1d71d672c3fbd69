# Read by bash before the script that is made of a code block. Each command that fails is a line in the file $REPORT:
# its line in the script, and its exit code.

unset BASH_ENV
set -o pipefail
trap 'echo "$LINENO $?" >>"$REPORT"' ERR
trap finish EXIT
serving=() lines=() held=()

# hold takes a lock until the script ends. Its arguments are flags and the name.
hold() {
	holdfast run "$@" -- sleep 600 &
	held+=($!)
	holdfast wait --held --timeout 60 "$@"
}

# serve starts a command that runs until it is ended, and returns when a line of its output, which is in the file
# served, matches a pattern.
serve() {
	local pattern=$1
	shift
	: >served
	"$@" >>served 2>&1 &
	serving+=($!) lines+=("${BASH_LINENO[0]}")
	until grep -q "$pattern" served; do
		kill -0 $! 2>/dev/null || return
		sleep 0.05
	done
}

# finish ends what runs in the background. A command that serves must exit with 0.
finish() {
	for i in "${!serving[@]}"; do
		kill -TERM "${serving[$i]}"
		wait "${serving[$i]}" || echo "${lines[$i]} $?" >>"$REPORT"
	done
	cat served 2>/dev/null
	[ ${#held[@]} = 0 ] || kill -TERM "${held[@]}"
	wait
}

# outside runs a program of this machine in the repository.
outside() (cd "$ROOT" && HOME=$OUTSIDE_HOME PATH=$OUTSIDE_PATH && "$@")

# redis-cli connects to the test's server.
redis-cli() { outside command redis-cli -p "$REDIS_PORT" "$@"; }

# make checks that there is such a target.
make() { outside command make -n "$@" >/dev/null; }

# go checks that the packages, tests, tools and flags exist.
go() {
	case "$1 $2 $3" in
	"install "*@latest*) outside command go list "${2%@latest}" ;;
	"get "*) outside command go list "$2" ;;
	"run ./"*) outside command go list "$2" ;;
	"build -trimpath "*) outside command go list "${@: -1}" ;;
	"-C bench run") outside command go -C bench run . "${@:5}" --help >/dev/null ;;
	"-C bench test") [ "$5" = -run ] && outside grep -qE "^func Test\w*$6" bench -r --include='*_test.go' ;;
	"tool -modfile=tools/go.mod "*) outside command go tool -modfile=tools/go.mod | grep "/$3\$" ;;
	*) echo "go $*: prelude.sh has no check for this" && return 1 ;;
	esac
}
