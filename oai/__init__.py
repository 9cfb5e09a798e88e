"""The kernel that provider and harvester share: vocabulary, datestamps, errors, XML, settings, database."""
