# Runs the script on standard input in the throwaway root; nsenter has entered its namespace. TRACE is 1 where every command
# is to be told on the fifo in the sandbox's folder D.
if [ "$TRACE" = 1 ]; then
  exec 7>"$D/trace"
  exec chroot "$D/root" bash --posix -c 's=$(cat); exec </dev/null; BASH_XTRACEFD=7; set -x; eval "$s"'
fi
exec chroot "$D/root" "$SHELL_OF_HOST" -c 's=$(cat); exec </dev/null; eval "$s"'
