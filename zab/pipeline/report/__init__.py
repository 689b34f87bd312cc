"""The page that people look at: the parts of the job `report`."""
