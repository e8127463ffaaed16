# What change scripts are made of. The caller sets MARK (what a record begins with), TOKEN and OWNER (of this run), DEAD (the
# token of a run that is known to be dead, or empty), STATE, JOURNAL, PENDING, CACHE, RECEIPTS, IMAGES, BLOBS,
# CTR, SOCKET, RUN and UNITS.
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
umask 022
W=$RUN/work
UNPACKED=$CACHE/unpacked
LOCK_WAIT=300

# --- records and ends ---------------------------------------------------------------------------------------------------

# A record that cannot be written means that nobody listens any more: stop before the next step.
rec() { printf '%s%s\n' "$MARK" "$*" || exit 1; }

fail() {
  rec "why	$*"
  exit 1
}

finish() {
  rm -rf "$W" "$UNPACKED"
  exit "$1"
}

# begin ID [TITLE]: the title only where the caller of the script does not know it.
begin() {
  if [ -e "$RUN/stop" ]; then
    rec "stopped	$1"
    finish 0
  fi
  rm -rf "$W"
  mkdir -m 0700 "$W" || finish 1
  rec "begin	$1	${2-}"
}

ended() {
  rec "end	$1	$2"
  [ "$2" = 0 ] || finish 1
}

# To disk before going on, so that a power cut cannot undo the order of things. The plain call is for a sync that takes no
# files, and for links that lead nowhere.
durable() { sync -- "$@" 2>/dev/null || sync; }

# A text for a later function of the same step, in base64 on standard input.
stash() { (umask 077 && base64 -d >"$W/$1"); }

# --- the lock -----------------------------------------------------------------------------------------------------------
# Two things: the file `lock` says which run owns the host (from its first change to its end, touched every 20 s by that
# run), and a kernel lock on `running` is held by the one change script that runs now, whoever started it.

take_lock() {
  mkdir -p "$RUN" && chmod 0700 "$RUN" || finish 1
  exec 8>>"$RUN/guard" && flock 8 || finish 1
  boot=$(cat /proc/sys/kernel/random/boot_id)
  now=$(date +%s)
  if [ -e "$RUN/lock" ]; then
    IFS='	' read -r l_token l_owner l_since l_boot <"$RUN/lock"
    age=$((now - $(stat -c %Y "$RUN/lock")))
    if [ "$l_token" != "$TOKEN" ]; then
      if [ "$l_token" = "$DEAD" ] || [ "$age" -gt 60 ] || [ "$l_boot" != "$boot" ]; then
        l_since=$now
        rec "took-over	$l_owner	$age"
      else
        rec "locked	$l_token	$l_owner	$((now - l_since))"
        exit 75
      fi
    fi
  fi
  printf '%s\t%s\t%s\t%s\n' "$TOKEN" "$OWNER" "${l_since:-$now}" "$boot" >"$RUN/lock.new"
  mv -f "$RUN/lock.new" "$RUN/lock"
  exec 8>&-
  exec 9>>"$RUN/running"
  if ! flock -n 9; then
    # An earlier script, whose caller is gone, is still at a step. It ends after that step; what this script was made from
    # is out of date by then.
    : >"$RUN/stop"
    rec "waiting"
    flock -w 3600 9
    rm -f "$RUN/stop"
    rec "again"
    exit 75
  fi
  rm -f "$RUN/stop"
}

mine() {
  [ -e "$RUN/lock" ] && IFS='	' read -r l_token _ <"$RUN/lock" && [ "$l_token" = "$TOKEN" ]
}

# A script that is still at its step, after its caller went away, keeps what it needs.
release_lock() {
  mine || return 0
  rm -f "$RUN/lock"
  exec 9>>"$RUN/running"
  flock -n 9 || return 0
  rm -rf "$CACHE" "$W"
  rm -f "$RUN/stop"
  for d in "$RUN"/long/*; do
    if [ -e "$d/rc" ]; then rm -rf "$d"; fi
  done
}

# --- the journal --------------------------------------------------------------------------------------------------------
# One folder for each thing that is changed: `kind`, `name`, and what it was. It is made whole under another name, synced,
# and renamed; where there is one already, it holds the original, and stays.

known() {
  K=$(printf '%s:%s' "$1" "$2" | sha256sum | cut -c 1-16)
  for e in "$JOURNAL"/1*-"$K"; do [ -e "$e" ] && return 0; done
  return 1
}

entry() {
  E=$JOURNAL/new
  rm -rf "$E"
  mkdir -p "$JOURNAL"
  chmod 0700 "$JOURNAL"
  mkdir "$E"
  printf '%s' "$1" >"$E/kind"
  printf '%s' "$2" >"$E/name"
}

kept() {
  n=100000
  for e in "$JOURNAL"/1*-*; do
    [ -e "$e" ] || continue
    e=${e##*/}
    n=${e%%-*}
  done
  durable "$E"/* "$E"
  mv "$E" "$JOURNAL/$((n + 1))-$K"
  durable "$JOURNAL"
}

keep_file() {
  known file "$1" && return 0
  entry file "$1"
  if [ -e "$1" ] || [ -L "$1" ]; then cp -a --reflink=auto -- "$1" "$E/original"; fi
  kept
}

# keep KIND NAME [WAS]
keep() {
  known "$1" "$2" && return 0
  entry "$1" "$2"
  if [ $# -gt 2 ]; then printf '%s\n' "$3" >"$E/was"; fi
  kept
}

# Steps that must run after what is changed now, noted down first.
mark() {
  mkdir -p "$PENDING"
  for m in "$@"; do : >"$PENDING/$m"; done
  durable "$PENDING"
}

# --- files --------------------------------------------------------------------------------------------------------------

# Every missing folder above a path.
parents() {
  set -- "${1%/*}"
  [ -n "$1" ] || return 0
  [ -d "$1" ] && return 0
  parents "$1"
  keep parent "$1"
  mkdir "$1"
}

plain_or_absent() {
  if [ -L "$1" ]; then fail "$1 is a symbolic link to $(readlink "$1"); hostspan does not write through links"; fi
  if [ -e "$1" ] && [ ! -f "$1" ]; then fail "$1 exists and is not a plain file"; fi
}

# Puts a finished temporary file of the same folder in place.
place() { # TEMP PATH OWNER MODE
  chown "$3" "$1"
  chmod "$4" "$1"
  durable "$1"
  mv -f "$1" "$2"
  durable "${2%/*}/"
  case "$2" in */systemd/*) : >"$RUN/reload" ;; esac
}

# put_file PATH MODE OWNER, content in base64 on standard input
put_file() {
  plain_or_absent "$1"
  parents "$1"
  keep_file "$1"
  rm -f "$1.hostspan-new"
  (umask 077 && set -C && base64 -d >"$1.hostspan-new")
  place "$1.hostspan-new" "$1" "$3" "$2"
}

# edit_file PATH OLD NEW, new content on standard input: only if it still is what the plan saw; owner and mode stay. OLD and
# NEW are digests: an earlier script of ours may have made the very same edit since.
edit_file() {
  sum=$(sha256sum <"$1")
  case "${sum%% *}" in
    "$2") put_file "$1" "$(stat -c %a "$1")" "$(stat -c %u:%g "$1")" ;;
    "$3") ;;
    *) fail "$1 was changed by somebody else since the plan was made; run again" ;;
  esac
}

remove_file() {
  if [ -d "$1" ] && [ ! -L "$1" ]; then fail "$1 is a directory"; fi
  keep_file "$1"
  rm -f "$1"
  durable "${1%/*}/"
  case "$1" in */systemd/*) : >"$RUN/reload" ;; esac
}

put_directory() { # PATH MODE OWNER
  if [ -d "$1" ]; then
    keep mode "$1" "$(stat -c '%a %u:%g' "$1/.")"
  else
    if [ -e "$1" ] || [ -L "$1" ]; then fail "$1 exists and is not a directory"; fi
    parents "$1"
    keep directory "$1"
    mkdir "$1"
  fi
  chown "$3" "$1"
  chmod "$2" "$1"
}

# --- artifacts ----------------------------------------------------------------------------------------------------------

# unpack SHA256 GZIP(z or empty) MEMBER...: into $UNPACKED, which is on disk. Archives name their members with or without a leading ./
unpack() {
  archive=$CACHE/$1
  flags=-x$2
  shift 2
  rm -rf "$UNPACKED"
  mkdir "$UNPACKED"
  # The list of the loop is taken before the first turn.
  for m in "$@"; do set -- "$@" "./$m"; done
  tar "$flags" -f "$archive" -C "$UNPACKED" --no-same-owner -- "$@" 2>"$W/tar" || :
}

# install_file TAKE SOURCE PATH MODE, where TAKE is mv, or cp for a source that is needed again
install_file() {
  take=$1
  shift
  if [ ! -f "$1" ]; then
    cat "$W/tar" 2>/dev/null || :
    fail "there is no file ${1#"$UNPACKED/"} in the archive"
  fi
  plain_or_absent "$2"
  parents "$2"
  keep_file "$2"
  rm -f "$2.hostspan-new"
  "$take" -- "$1" "$2.hostspan-new"
  place "$2.hostspan-new" "$2" root:root "$3"
}

# receipt KEY SHA256 PATH...: what was installed, so that a later run compares by stat and need not read the files again.
receipt() {
  mkdir -p "$RECEIPTS"
  key=$1
  {
    printf '%s\n' "$2"
    shift 2
    stat -c '%s %Y %a %n' -- "$@"
  } >"$RECEIPTS/$key.new"
  durable "$RECEIPTS/$key.new"
  mv -f "$RECEIPTS/$key.new" "$RECEIPTS/$key"
}

# Not journalled: what our own containerd has goes with its folder.
import_image() { # KEY SHA256 REFERENCE(or empty)
  "$CTR" -a "$SOCKET" -n k8s.io images import "$CACHE/$2" || fail "containerd did not take the image archive"
  blob=-
  if [ -n "$3" ]; then
    blob=$("$CTR" -a "$SOCKET" -n k8s.io images ls "name==$3" | sed -n 's/.*\(sha256:[0-9a-f]\{64\}\).*/\1/p' | head -n 1)
    [ -n "$blob" ] || fail "the archive was imported, but containerd has no image $3: does the archive hold it?"
    [ -e "$BLOBS/${blob#sha256:}" ] || blob=-
  fi
  mkdir -p "$IMAGES"
  printf '%s %s\n' "$2" "$blob" >"$IMAGES/$1"
}

# --- packages -----------------------------------------------------------------------------------------------------------

# Output is shown and kept in $W/apt; a lock of the package lists has no time-out of apt's own, so it is waited for here.
apt() {
  tries=0
  while :; do
    {
      DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a apt-get -q -y -o Dpkg::Options::=--force-confold \
        -o DPkg::Lock::Timeout="$LOCK_WAIT" "$@" 2>&1
      echo $? >"$W/rc"
    } | tee "$W/apt"
    rc=$(cat "$W/rc")
    [ "$rc" = 0 ] && return 0
    grep -qE 'Could not get lock|is another process using it' "$W/apt" || return 1
    holder=$(sed -n 's/.*held by process \([0-9]* ([^)]*)\).*/\1/p' "$W/apt" | tail -n 1)
    tries=$((tries + 1))
    if [ "$tries" -ge $((LOCK_WAIT / 10)) ] || [ "$1" != update ]; then
      fail "the package manager is locked by process ${holder:-unknown (another apt or dpkg)}; wait until it is done, or stop it"
    fi
    sleep 10
  done
}

install_packages() {
  if ! apt -s install "$@" >/dev/null; then
    apt update || fail "apt-get update failed"
    apt -s install "$@" || fail "apt cannot install: $*"
  fi
  # Also what comes along with them: only new ones, so that reset never takes away what was there.
  for p in $(sed -n 's/^Inst \([^ ]*\) (.*/\1/p' "$W/apt"); do keep package "$p"; done
  if ! apt install "$@"; then
    # The lists may name versions that the archive no longer has.
    apt update || fail "apt-get update failed"
    apt install "$@" || fail "apt could not install: $*"
  fi
}

# --- the kernel ---------------------------------------------------------------------------------------------------------

set_sysctl() { # NAME PATH VALUE
  [ -e "$2" ] || fail "this kernel has no setting $1 (is the module that brings it loaded?)"
  keep sysctl "$2" "$(cat "$2")"
  printf '%s\n' "$3" >"$2" || fail "the kernel does not take $3 for $1"
}

load_module() { # NAME
  keep module "$1"
  modprobe -- "$1" || fail "module $1 cannot be loaded, and is not built into the kernel $(uname -r)"
}

swap_off() { # SPEC
  keep swap "$1"
  swapoff "$1"
}

# --- units --------------------------------------------------------------------------------------------------------------

# unit NAME ENABLED ACTIVE MASKED RESTART, each 1, 0 or -
unit() {
  was=$(systemctl show -p LoadState -p UnitFileState -p ActiveState -p NeedDaemonReload -- "$1")
  keep unit "$1" "$was"
  case "$was" in *NeedDaemonReload=yes*) : >"$RUN/reload" ;; esac
  if [ -e "$RUN/reload" ]; then
    systemctl daemon-reload
    rm -f "$RUN/reload"
  fi
  if [ "$3" = 0 ]; then systemctl stop -- "$1"; fi
  if [ "$4" = 1 ]; then
    systemctl -q mask -- "$1"
    return 0
  fi
  if [ "$2" = 1 ] || [ "$3" = 1 ]; then
    case "$(systemctl is-enabled -- "$1" 2>/dev/null)" in masked*) systemctl -q unmask -- "$1" ;; esac
  fi
  case "$2" in
    1) systemctl -q enable -- "$1" ;;
    0) systemctl -q disable -- "$1" ;;
  esac
  verb=
  if [ "$5" = 1 ]; then
    case "$3" in 1) verb=restart ;; -) verb=try-restart ;; esac
  elif [ "$3" = 1 ]; then
    verb=start
  fi
  [ -n "$verb" ] || return 0
  if ! systemctl $verb -- "$1"; then
    journalctl -q --no-pager -n 15 -o cat -u "$1" || :
    fail "systemd could not $verb $1"
  fi
}

# --- commands -----------------------------------------------------------------------------------------------------------
# The texts are in $W/script, $W/check, $W/undo and $W/input: none of them in argv, since they may hold secrets.

holds() { sh "$W/check" </dev/null >/dev/null 2>&1; }

# run_command ID TIMEOUT AGAIN(1: even if its check holds)
run_command() {
  if [ "$3" = 0 ] && holds; then return 0; fi
  keep_undo "$1"
  began=$(date +%s)
  timeout -k 10 "$2" sh -e "$W/script" <"$W/input" || command_failed $? "$2"
  holds || fail "its check still fails after it ran"
}

# By the clock: what timeout ends with after a time-out differs between GNU's and the Rust one.
command_failed() {
  [ $(($(date +%s) - began)) -lt "$2" ] || fail "it did not end within $2 s"
  fail "it ended with status $1"
}

keep_undo() {
  [ -e "$W/undo" ] || return 0
  known command "$1" && return 0
  entry command "$1"
  cp "$W/undo" "$E/undo"
  kept
}

# run_long ID KEY TIMEOUT AGAIN: as run_command, in a systemd unit of its own. A lost link leaves it running; whoever comes
# next, with this run's token or another's, waits for it instead of starting a second one.
run_long() {
  u=$UNITS$2.service
  d=$RUN/long/$2
  if systemctl -q is-active "$u"; then
    echo "$u, started by an earlier run, is still at it: waiting for it"
    cmp -s "$d/script" "$W/script" && follow "$3" "$d" "$u" && { [ "$4" = 1 ] || holds; } && return 0
    if systemctl -q is-active "$u"; then follow "$3" "$d" "$u"; fi
  elif [ -e "$d/rc" ] && [ "$(cat "$d/token")" = "$TOKEN" ] && cmp -s "$d/script" "$W/script"; then
    # This very run started it, and lost its link before it could see the end.
    follow "$3" "$d" "$u"
    holds || fail "its check still fails after it ran"
    return 0
  fi
  if [ "$4" = 0 ] && holds; then return 0; fi
  keep_undo "$1"
  systemctl -q reset-failed "$u" 2>/dev/null || :
  rm -rf "$d"
  mkdir -p "$d"
  cp "$W/script" "$W/input" "$d/"
  printf '%s\n' "$TOKEN" >"$d/token"
  : >"$d/out"
  cat >"$d/main" <<'HS_MAIN'
cd "$1" || exit 1
exec 3<input
rm -f input
sh -e ./script <&3 >out 2>&1
echo $? >rc.new
mv rc.new rc
HS_MAIN
  systemd-run -q --collect --unit "$u" -p Type=exec -p RuntimeMaxSec="$3" -p Environment="PATH=$PATH LC_ALL=C" \
    sh "$d/main" "$d"
  follow "$3" "$d" "$u"
  holds || fail "its check still fails after it ran"
}

# Shows a long command's output until it ends; fails as it did. Its result is used once.
follow() { # TIMEOUT FOLDER UNIT
  (
    while [ ! -e "$2/rc" ] && systemctl -q is-active "$3"; do
      for _ in 1 2 3 4 5; do
        [ -e "$2/rc" ] || sleep 0.2
      done
    done
  ) &
  tail -n +1 -s 0.1 --pid=$! -f "$2/out" || :
  # Where nobody listens any more, tail ends before the command does. Whoever comes next follows it.
  if [ ! -e "$2/rc" ] && systemctl -q is-active "$3"; then fail "nobody waits for it any more"; fi
  rc=$(cat "$2/rc" 2>/dev/null || echo none)
  rm -rf "$2"
  [ "$rc" != none ] || fail "it was stopped from outside, or did not end within $1 s"
  [ "$rc" = 0 ] || fail "it ended with status $rc"
}
