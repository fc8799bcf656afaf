# What a login prints before anybody asked for it: on standard output and on standard error.
echo "load bsc/1.0 (PATH, MANPATH)"
echo "================================================================"
echo "  Welcome to the rehearsal login node. 12345 jobs RUNNING today."
echo "================================================================"
echo "remark: your default modules have been loaded" >&2
