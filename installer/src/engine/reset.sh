# Walks the journal backwards. Each entry goes once what it stands for is restored, so that a walk that was cut short goes on
# where it stopped. A failure leaves its entry and does not stop the others.
left=0

# In a subshell with set -e; E is the entry, name what it is about.
restore() {
  case "$1" in
    file) restore_file ;;
    parent)
      case "$name/" in
        "$ETC"/* | "$STATE"/*) ;; # all of it goes at the end
        *) [ ! -d "$name" ] || rmdir "$name" 2>/dev/null || rec "warning	$name stays: something of others is in it" ;;
      esac
      ;;
    directory) rm -rf --one-file-system -- "$name" ;;
    mode)
      read -r mode owner <"$E/was"
      [ ! -d "$name" ] || { chown "$owner" "$name" && chmod "$mode" "$name"; }
      ;;
    unit) restore_unit "$(cat "$E/was")" ;;
    sysctl) [ ! -e "$name" ] || cat "$E/was" >"$name" ;;
    module) modprobe -r -- "$name" 2>/dev/null || rec "warning	module $name stays loaded: it is in use" ;;
    swap) swapon "$name" ;;
    command) sh "$E/undo" || fail "its undo ended with status $?" ;;
    packages) purge $name ;;
  esac
}

restore_file() {
  rm -f "$name.hostspan-new"
  if [ -d "$name" ] && [ ! -L "$name" ]; then fail "somebody made a directory of it"; fi
  if [ -e "$E/original" ] || [ -L "$E/original" ]; then
    mkdir -p "${name%/*}/"
    cp -a --reflink=auto -- "$E/original" "$name.hostspan-new"
    durable "$name.hostspan-new"
    mv -fT "$name.hostspan-new" "$name"
  else
    rm -f "$name"
  fi
}

# Boot state now, where it differs; what ran before is started at the end, when all its files are as they were.
restore_unit() {
  now=$(systemctl show -p LoadState -p UnitFileState -- "$name")
  case "$1 $now" in
    *LoadState=masked*' '*LoadState=masked*) ;;
    *LoadState=masked*' '*) systemctl -q mask -- "$name" ;;
    *' '*LoadState=masked*) systemctl -q unmask -- "$name" ;;
  esac
  case "$1 $now" in
    *UnitFileState=enabled*' '*UnitFileState=enabled*) ;;
    *UnitFileState=enabled*' '*) systemctl -q enable -- "$name" ;;
    *UnitFileState=disabled*' '*UnitFileState=enabled* | *LoadState=not-found*' '*UnitFileState=enabled*)
      systemctl -q disable -- "$name"
      ;;
  esac
  case "$1" in
    *ActiveState=active* | *ActiveState=activating* | *ActiveState=reloading*)
      printf '%s\n' "$name" >>"$STATE/restart"
      durable "$STATE/restart"
      ;;
    *) systemctl stop -- "$name" 2>/dev/null || : ;;
  esac
}

# Only what came with us, and nothing that something else needs by now.
purge() {
  have=
  for p in "$@"; do
    case "$(dpkg-query -W -f='${db:Status-Status}' -- "$p" 2>/dev/null)" in installed | config-files) have="$have $p" ;; esac
  done
  [ -n "$have" ] || return 0
  apt -s purge $have >/dev/null || fail "apt cannot remove:$have"
  for p in $(sed -n 's/^\(Purg\|Remv\) \([^ ]*\) .*/\2/p' "$W/apt"); do
    case " $* " in *" ${p%%:*} "*) ;; *) fail "not removed, since $p needs some of it:$have" ;; esac
  done
  apt purge $have || fail "apt could not remove:$have"
}

# undo KIND NAME ENTRY...
undo() {
  kind=$1
  name=$2
  shift 2
  E=$1
  case "$kind" in
    file) begin "$kind $name" "Restore $name" ;;
    parent | directory) begin "$kind $name" "Remove the directory $name" ;;
    mode) begin "$kind $name" "Give $name its owner and mode back" ;;
    unit) begin "$kind $name" "Put the unit $name back" ;;
    sysctl) begin "$kind $name" "Set $name back" ;;
    module) begin "$kind $name" "Unload the module $name" ;;
    swap) begin "$kind $name" "Swap to $name again" ;;
    packages) begin "$kind $name" "Remove $name" ;;
    *) begin "$kind $name" "Undo $name" ;;
  esac
  ( set -e; restore "$kind" ) </dev/null 2>&1 9>&-
  rc=$?
  if [ $rc = 0 ]; then
    for e in "$@"; do
      mv "$e" "$JOURNAL/restored" && rm -rf "$JOURNAL/restored"
    done
    durable "$JOURNAL"
  else
    left=$((left + 1))
  fi
  rec "end	$kind $name	$rc"
}

# Packages beside each other in the journal go in one call.
purge_collected() {
  [ -n "$packages" ] || return 0
  undo packages "${packages# }" $package_entries
  packages=
  package_entries=
}

take_lock
for d in "$RUN"/long/*; do
  if [ -d "$d" ]; then systemctl stop "$UNITS${d##*/}.service" 2>/dev/null; fi
done
rm -rf "$JOURNAL/new" "$JOURNAL/restored"
entries=
for e in "$JOURNAL"/1*-*; do
  if [ -d "$e" ]; then entries="${e##*/} $entries"; fi
done
packages=
package_entries=
for e in $entries; do
  e=$JOURNAL/$e
  if [ "$(cat "$e/kind")" = package ]; then
    packages="$packages $(cat "$e/name")"
    package_entries="$package_entries $e"
    continue
  fi
  purge_collected
  undo "$(cat "$e/kind")" "$(cat "$e/name")" "$e"
done
purge_collected
if [ -e "$STATE/restart" ]; then
  begin "units that ran before" "Start the units that ran before"
  (
    systemctl daemon-reload
    rc=0
    for u in $(sort -u "$STATE/restart"); do
      [ "$(systemctl show -p LoadState -- "$u")" = LoadState=loaded ] || continue
      systemctl restart -- "$u" || { rec "why	$u does not start"; rc=1; }
    done
    exit $rc
  ) </dev/null 2>&1 9>&-
  rc=$?
  [ $rc = 0 ] || left=$((left + 1))
  rec "end	units that ran before	$rc"
elif command -v systemctl >/dev/null; then
  systemctl daemon-reload
fi
if [ $left = 0 ]; then
  rm -rf --one-file-system "$STATE" "$ETC" "$RUN" || rec "warning	something is still mounted below $STATE; what is there stays"
fi
rec probe
exit 0
