"""Bibliographic rows from harvested records: conversion, filtering sets, import and search (BIB)."""
