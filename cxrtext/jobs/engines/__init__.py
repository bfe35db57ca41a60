"""What runs the tasks of a job: processes of this machine (``local``), or a cluster (``dask``)."""
