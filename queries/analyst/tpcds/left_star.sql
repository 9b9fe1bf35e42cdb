select count(*), sum(ss_net_paid), max(d_year), max(i_brand), max(c_first_name), max(s_store_name),
  max(p_promo_name), max(ca_city), max(hd_dep_count), max(t_hour)
from store_sales
left join date_dim on ss_sold_date_sk=d_date_sk and d_year=2000
left join item on ss_item_sk=i_item_sk and i_category='Books'
left join customer on ss_customer_sk=c_customer_sk and c_birth_year>1970
left join store on ss_store_sk=s_store_sk and s_state='TN'
left join promotion on ss_promo_sk=p_promo_sk and p_channel_email='N'
left join customer_address on ss_addr_sk=ca_address_sk and ca_gmt_offset=-6
left join household_demographics on ss_hdemo_sk=hd_demo_sk and hd_dep_count>3
left join time_dim on ss_sold_time_sk=t_time_sk and t_hour>12
