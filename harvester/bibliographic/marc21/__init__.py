"""Conversion of MARC 21 records (MARCXML) into bibliographic records.

Source: MARC 21 Format for Bibliographic Data, Library of Congress; the thesis on the Vokabulář webový, 2.6.2.
"""
