# Enters a throwaway root in a mount namespace of its own and runs the script on standard input there. D is the folder of
# the sandbox; TRACE is 1 where every command is to be told on the fifo there.
set -e
mount --make-rprivate /
mount -t overlay -o "lowerdir=/,upperdir=$D/upper,workdir=$D/work" overlay "$D/root"
mount --rbind /dev "$D/root/dev"
mount --bind /proc "$D/root/proc"
mount --bind "$D/proc-sys" "$D/root/proc/sys"
mount --bind "$D/proc-swaps" "$D/root/proc/swaps"
mount --bind "$D/run" "$D/root/run"
if [ "$TRACE" = 1 ]; then
  exec 7>"$D/trace"
  exec chroot "$D/root" bash --posix -c 's=$(cat); exec </dev/null; BASH_XTRACEFD=7; set -x; eval "$s"'
fi
exec chroot "$D/root" "$SHELL_OF_HOST" -c 's=$(cat); exec </dev/null; eval "$s"'
