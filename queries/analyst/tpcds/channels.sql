select channel, d_year, d_qoy, count(*) n, sum(p)
from (select 'store' channel, ss_sold_date_sk d, ss_ext_sales_price p
  from store_sales
  union all select 'web', ws_sold_date_sk, ws_ext_sales_price
  from web_sales
  union all select 'catalog', cs_sold_date_sk, cs_ext_sales_price
  from catalog_sales) t
join date_dim on t.d=d_date_sk
group by 1,2,3
order by 1,2,3
