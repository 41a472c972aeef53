"""Word, PowerPoint, OpenDocument and Rich Text Format; spreadsheets are in `sheets`."""
